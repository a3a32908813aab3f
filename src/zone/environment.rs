//! What a zone adds to the environment of a command.

use super::kind::Reach;
use std::collections::BTreeMap;

/// Variables by which programs find a proxy.
const PROXIES: [&str; 6] =
    ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy", "http_proxy"];

/// Returns the variables that lead a command to what it reaches.
///
/// `token` is what the gate asks for, where it is not the zone's own.
pub fn of(reach: &Reach, token: Option<&str>) -> BTreeMap<String, String> {
    let Reach::Gate(port) = reach else { return BTreeMap::new() };
    let user = token.map(|token| format!("loopexec:{token}@")).unwrap_or_default();
    let proxy = format!("http://{user}127.0.0.1:{port}");
    let mut all: BTreeMap<String, String> =
        PROXIES.iter().map(|name| ((*name).to_owned(), proxy.clone())).collect();
    for name in ["NO_PROXY", "no_proxy"] {
        all.insert(name.to_owned(), "localhost,127.0.0.1,::1".to_owned());
    }
    // Node reads the variables above only when it is told to.
    all.insert("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned());
    all
}
