//! The filters of git's configuration (`filter.*`): which there are, and how git is kept from running them.
//!
//! A filter is a program that git starts by itself, in the folder it works in, for every file that an attribute
//! gives it. Where that folder or that configuration is not the caller's own, none may run.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The variables that [`silenced`] and [`required`] refer to.
pub const VARIABLES: [(&str, &str); 3] =
    [("LOOPEXEC_NONE", ""), ("LOOPEXEC_NO", "false"), ("LOOPEXEC_YES", "true")];

/// The arguments that list the keys of a configuration, for [`read_names`].
pub const LIST: [&str; 4] = ["config", "--list", "--name-only", "-z"];

/// Returns the names of the filters that run a program.
pub fn read_names(listed: &[u8]) -> BTreeSet<Vec<u8>> {
    let keys = listed.split(|byte| *byte == 0);
    let name = |key: &[u8]| {
        let rest = key.strip_prefix(b"filter.")?;
        let end = rest.iter().rposition(|byte| *byte == b'.')?;
        let runs = [&b"clean"[..], b"smudge", b"process"].contains(&&rest[end + 1..]);
        runs.then(|| rest[..end].to_vec())
    };
    keys.filter_map(name).collect()
}

/// Returns the options of git that take the programs from these filters, whatever a configuration says.
pub fn silenced<'a>(names: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<OsString> {
    let keys = [
        ("clean", "LOOPEXEC_NONE"),
        ("smudge", "LOOPEXEC_NONE"),
        ("process", "LOOPEXEC_NONE"),
        ("required", "LOOPEXEC_NO"),
    ];
    let of = |name: &'a Vec<u8>| keys.map(|(key, value)| option(name, key, value));
    names.into_iter().flat_map(of).collect()
}

/// Returns the option of git that makes a file fail where its filter does.
pub fn required(name: &[u8]) -> OsString {
    option(name, "required", "LOOPEXEC_YES")
}

/// An option that holds for every name: `-c` would end the key at its first `=`.
fn option(name: &[u8], key: &str, variable: &str) -> OsString {
    let parts = [b"--config-env=filter.", name, b".", key.as_bytes(), b"=", variable.as_bytes()];
    OsString::from_vec(parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_with_a_program_is_named_whatever_it_is_called() {
        let listed =
            b"core.bare\0filter.a.clean\0filter.a=b.c.process\0filter.x.required\0filter.s.smudge\0";
        let names = read_names(listed);
        assert_eq!(names, [&b"a"[..], b"a=b.c", b"s"].map(<[u8]>::to_vec).into());
        let options = silenced(&names);
        assert_eq!(options.len(), 12);
        assert!(options.contains(&"--config-env=filter.a=b.c.process=LOOPEXEC_NONE".into()));
    }
}
