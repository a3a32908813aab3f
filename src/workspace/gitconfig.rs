//! A reader of one git configuration file, without includes, and the keys in it that can run a
//! program, include, redirect or filter.
//!
//! Syntax: `git-config(1)`, section "CONFIGURATION FILE". libgit2 is not asked, as it follows
//! `include.path`.

/// One setting, the key in git's canonical form: section and name in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// `section.name` or `section.subsection.name`.
    pub key: String,
    /// The value, nothing where the name stands alone.
    pub value: Option<String>,
}

/// Parses a configuration file; nothing where git would refuse it.
pub fn parse(text: &[u8]) -> Option<Vec<Setting>> {
    let text = String::from_utf8_lossy(text).replace("\r\n", "\n");
    let mut rest = text.trim_start_matches('\u{feff}').chars().peekable();
    let mut section = None;
    let mut settings = Vec::new();
    while let Some(character) = rest.next() {
        match character {
            _ if character.is_whitespace() => {}
            '#' | ';' => while rest.next().is_some_and(|c| c != '\n') {},
            '[' => section = Some(parse_section(&mut rest)?),
            _ if character.is_ascii_alphabetic() => {
                let mut name = character.to_ascii_lowercase().to_string();
                while let Some(next) = rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '-') {
                    name.push(next.to_ascii_lowercase());
                }
                while rest.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
                let value = match rest.peek() {
                    Some('=') => {
                        rest.next();
                        Some(parse_value(&mut rest)?)
                    }
                    None | Some('\n' | '#' | ';') => None,
                    Some(_) => return None,
                };
                let key = format!("{}.{name}", section.as_ref()?);
                settings.push(Setting { key, value });
            }
            _ => return None,
        }
    }
    Some(settings)
}

type Characters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn parse_section(rest: &mut Characters<'_>) -> Option<String> {
    let mut section = String::new();
    loop {
        match rest.next()? {
            ']' => return Some(section),
            c if c.is_ascii_alphanumeric() || c == '-' || c == '.' => {
                section.push(c.to_ascii_lowercase());
            }
            ' ' | '\t' => break,
            _ => return None,
        }
    }
    while rest.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
    if rest.next()? != '"' {
        return None;
    }
    section.push('.');
    loop {
        match rest.next()? {
            '"' => break,
            '\\' => section.push(rest.next()?),
            '\n' => return None,
            c => section.push(c),
        }
    }
    (rest.next()? == ']').then_some(section)
}

fn parse_value(rest: &mut Characters<'_>) -> Option<String> {
    let mut value = String::new();
    let mut kept = 0;
    let mut quoted = false;
    loop {
        match rest.next() {
            None | Some('\n') if quoted => return None,
            None | Some('\n') => break,
            Some('"') => {
                quoted = !quoted;
                kept = value.len();
            }
            Some('\\') => {
                match rest.next()? {
                    '\n' => continue,
                    'n' => value.push('\n'),
                    't' => value.push('\t'),
                    'b' => value.push('\u{8}'),
                    c @ ('"' | '\\') => value.push(c),
                    _ => return None,
                }
                kept = value.len();
            }
            Some('#' | ';') if !quoted => {
                while rest.next().is_some_and(|c| c != '\n') {}
                break;
            }
            Some(c) if c.is_whitespace() && !quoted => {
                if kept > 0 || !value.is_empty() {
                    value.push(c);
                }
            }
            Some(c) => {
                value.push(c);
                kept = value.len();
            }
        }
    }
    value.truncate(kept);
    Some(value)
}

/// Sections of which every key counts.
const SECTIONS: [&str; 12] = [
    "include",
    "includeif",
    "filter",
    "alias",
    "credential",
    "url",
    "hook",
    "extensions",
    "pager",
    "lfs",
    "protocol",
    "sendemail",
];

/// Keys by section and name, whatever stands between.
const KEYS: [(&str, &[&str]); 24] = [
    (
        "core",
        &[
            "fsmonitor",
            "hookspath",
            "editor",
            "pager",
            "askpass",
            "sshcommand",
            "gitproxy",
            "worktree",
            "attributesfile",
            "excludesfile",
            "alternaterefscommand",
            "bare",
            "repositoryformatversion",
        ],
    ),
    ("diff", &["external", "command", "textconv"]),
    ("merge", &["driver", "tool"]),
    ("mergetool", &["cmd", "path"]),
    ("difftool", &["cmd", "path"]),
    ("gpg", &["program", "defaultkeycommand"]),
    ("sequence", &["editor"]),
    ("uploadpack", &["packobjectshook"]),
    ("remote", &["uploadpack", "receivepack", "vcs", "proxy", "promisor", "partialclonefilter"]),
    ("browser", &["cmd", "path"]),
    ("man", &["cmd", "path", "viewer"]),
    ("web", &["browser"]),
    ("instaweb", &["httpd", "browser", "modulepath"]),
    ("trailer", &["command", "cmd"]),
    ("submodule", &["update", "url"]),
    (
        "http",
        &["proxy", "sslverify", "sslcainfo", "cookiefile", "extraheader", "sslkey", "sslcert"],
    ),
    ("ssh", &["variant"]),
    ("interactive", &["difffilter"]),
    ("init", &["templatedir"]),
    ("tar", &["command"]),
    ("receive", &["certnonceseed", "procreceiverefs"]),
    ("gc", &["recentobjectshook"]),
    ("imap", &["tunnel"]),
    ("guitool", &["cmd"]),
];

/// Tells whether a key runs a program, includes, redirects or filters. All else (`user`, `branch`,
/// the places of a `remote`, another name for a command of git) is the agent's.
pub fn is_controlled(setting: &Setting) -> bool {
    let key = setting.key.as_str();
    // An alias that begins so is a command of the shell.
    let runs = setting.value.as_deref().is_none_or(|value| value.trim_start().starts_with('!'));
    if key.starts_with("alias.") && !runs {
        return false;
    }
    let section = key.split('.').next().unwrap_or(key);
    let name = key.rsplit('.').next().unwrap_or(key);
    SECTIONS.contains(&section)
        || KEYS.iter().any(|(known, names)| *known == section && names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Option<Vec<(String, Option<String>)>> {
        Some(parse(text.as_bytes())?.into_iter().map(|s| (s.key, s.value)).collect())
    }

    #[test]
    fn values_are_read_as_git_reads_them() {
        let text = "[Core] bare = false ; no\n\teditor=\"a # b\" c\\\n d # x\n[Filter \"Q.\\\"x\"]\n clean\n[a.B]\nc=\n";
        let pair = |k: &str, v: Option<&str>| (k.to_string(), v.map(str::to_string));
        assert_eq!(
            pairs(text).unwrap(),
            [
                pair("core.bare", Some("false")),
                pair("core.editor", Some("a # b c d")),
                pair("filter.Q.\"x.clean", None),
                pair("a.b.c", Some("")),
            ]
        );
        for bad in ["[core", "x = 1", "[core]\na = \"b\n", "[core]\n= 3", "[core]\na = \\q"] {
            assert_eq!(pairs(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_runs_or_redirects_counts_and_the_rest_is_the_agents() {
        let counts = |key: &str| {
            is_controlled(&Setting { key: key.to_owned(), value: Some("!x".to_owned()) })
        };
        let alias = Setting { key: "alias.st".to_owned(), value: Some("status -s".to_owned()) };
        assert!(!is_controlled(&alias), "it runs a command of git");
        for key in [
            "core.fsmonitor",
            "filter.x.clean",
            "include.path",
            "includeif.gitdir:x.path",
            "alias.st",
            "remote.origin.uploadpack",
            "diff.external",
            "diff.x.textconv",
        ] {
            assert!(counts(key), "{key}");
        }
        for key in
            ["user.name", "branch.main.remote", "remote.origin.url", "core.filemode", "gc.auto"]
        {
            assert!(!counts(key), "{key}");
        }
    }
}
