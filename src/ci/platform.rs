//! Which platform this is, from the environment.
//!
//! Sources of the variables: the npm package `ci-info` and each platform's own page.

/// A CI platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Platform {
    /// GitHub Actions.
    GitHub,
    /// Gitea or Forgejo Actions.
    Gitea,
    /// GitLab CI.
    GitLab,
    /// Buildkite.
    Buildkite,
    /// Azure Pipelines.
    Azure,
    /// TeamCity.
    TeamCity,
    /// Jenkins.
    Jenkins,
    /// CircleCI.
    CircleCi,
    /// Bitbucket Pipelines.
    Bitbucket,
    /// None that is known.
    None,
}

impl Platform {
    /// Every platform.
    pub const ALL: [Self; 10] = [
        Self::GitHub,
        Self::Gitea,
        Self::GitLab,
        Self::Buildkite,
        Self::Azure,
        Self::TeamCity,
        Self::Jenkins,
        Self::CircleCi,
        Self::Bitbucket,
        Self::None,
    ];

    /// Returns its name as `--platform` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::Gitea => "gitea",
            Self::GitLab => "gitlab",
            Self::Buildkite => "buildkite",
            Self::Azure => "azure",
            Self::TeamCity => "teamcity",
            Self::Jenkins => "jenkins",
            Self::CircleCi => "circleci",
            Self::Bitbucket => "bitbucket",
            Self::None => "none",
        }
    }

    /// Finds the platform by the variables it sets; the specific stand before the general.
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Self {
        let is = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        let says =
            |name: &str| variable(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        // Gitea and Forgejo set GITHUB_ACTIONS too.
        if says("GITEA_ACTIONS") || says("FORGEJO_ACTIONS") {
            return Self::Gitea;
        }
        if says("GITHUB_ACTIONS") {
            return Self::GitHub;
        }
        if says("GITLAB_CI") {
            return Self::GitLab;
        }
        if says("BUILDKITE") {
            return Self::Buildkite;
        }
        if says("TF_BUILD") {
            return Self::Azure;
        }
        if is("TEAMCITY_VERSION") {
            return Self::TeamCity;
        }
        if says("CIRCLECI") {
            return Self::CircleCi;
        }
        if is("BITBUCKET_COMMIT") {
            return Self::Bitbucket;
        }
        if is("JENKINS_URL") && is("BUILD_ID") {
            return Self::Jenkins;
        }
        Self::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Platform {
        Platform::detect(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_specific_stands_before_the_general() {
        assert_eq!(of(&[("GITHUB_ACTIONS", "true"), ("CI", "true")]), Platform::GitHub);
        assert_eq!(of(&[("GITHUB_ACTIONS", "true"), ("GITEA_ACTIONS", "true")]), Platform::Gitea);
        assert_eq!(of(&[("GITLAB_CI", "true")]), Platform::GitLab);
        assert_eq!(of(&[("TF_BUILD", "True")]), Platform::Azure);
        assert_eq!(of(&[("JENKINS_URL", "http://j"), ("BUILD_ID", "7")]), Platform::Jenkins);
        assert_eq!(of(&[("CI", "true")]), Platform::None);
        assert_eq!(of(&[("GITHUB_ACTIONS", "")]), Platform::None);
    }
}
