//! Which ignored paths look like secrets, by name: `carry: auto` leaves them behind.
//!
//! The list is short and errs on the side of leaving behind; `workspace.carry` names what is needed
//! all the same. Within folders of dependencies and builds (certificates of `certifi`, test keys of
//! crates) nothing is taken for a secret.

/// Folders whose content comes from a registry or a compiler.
const BUILT: [&str; 14] = [
    "node_modules",
    "site-packages",
    "dist-packages",
    ".venv",
    "venv",
    ".tox",
    ".nox",
    "target",
    "vendor",
    "bower_components",
    "Pods",
    ".gradle",
    "__pycache__",
    ".terraform",
];

/// Names that hold credentials whatever stands around them.
const NAMES: [&str; 22] = [
    ".netrc",
    "_netrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".envrc",
    ".aws",
    ".ssh",
    ".gnupg",
    ".kube",
    ".azure",
    ".gcloud",
    ".docker",
    ".vault-token",
    "credentials",
    ".credentials",
    "secrets",
    ".secrets",
    "secrets.yml",
    "secrets.yaml",
    "secrets.json",
    "secrets.toml",
];

/// Endings of key stores and private keys.
const ENDINGS: [&str; 9] =
    [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".tfvars"];

/// Beginnings of names that hold credentials.
const BEGINNINGS: [&str; 7] = [
    "credentials.",
    ".credentials.",
    "service-account",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
];

/// Tells whether a name (the last part of a path) looks like a secret.
pub fn is_secret_name(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    if let Some(rest) = name.strip_prefix(".env") {
        let harmless = [".example", ".sample", ".template"];
        return (rest.is_empty() || rest.starts_with(['.', '-', '_']))
            && !harmless.iter().any(|ending| rest.ends_with(ending));
    }
    NAMES.contains(&name.as_str())
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || BEGINNINGS.iter().any(|start| name.starts_with(start)) && !name.ends_with(".pub")
}

/// Tells whether a path lies in, or is, a folder of dependencies or builds.
pub fn is_built(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|part| BUILT.iter().any(|name| name.as_bytes() == part))
}

/// Tells whether the content of an `.npmrc` or `.yarnrc.yml` holds a token.
pub fn holds_token(content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    ["_authToken", "_auth=", "_auth =", "_password", "npmAuthToken", "npmAuthIdent"]
        .iter()
        .any(|sign| text.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_told_from_their_neighbours() {
        for secret in
            [".env", ".env.local", ".ENV", "server.key", "id_rsa", "id_ed25519_work", ".aws"]
        {
            assert!(is_secret_name(secret.as_bytes()), "{secret}");
        }
        for open in
            [".env.example", ".env.d.template", "id_rsa.pub", ".environment", "keys", "a.pem.txt"]
        {
            assert!(!is_secret_name(open.as_bytes()), "{open}");
        }
        assert!(is_built(b"app/node_modules/x/a.pem") && !is_built(b"app/modules/a.pem"));
        assert!(holds_token(b"//registry/:_authToken=x") && !holds_token(b"registry=https://r"));
    }
}
