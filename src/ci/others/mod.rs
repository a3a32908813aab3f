//! Buildkite, Azure, TeamCity, Jenkins, CircleCI, Bitbucket.
