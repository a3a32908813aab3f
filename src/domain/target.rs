//! A `host:port` that may be reached.

use serde::{Serialize, Serializer};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A host, in lower case and without a dot at its end, and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// A name, or an address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Target {
    /// Says whether it names the own machine by name.
    pub fn is_local_name(&self) -> bool {
        self.host == "localhost"
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(to, "[{}]:{}", self.host, self.port),
            false => write!(to, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    /// Reads `name:port`, `1.2.3.4:port` or `[::1]:port`; anything else is refused, a dot at the end too.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{:?} is no host:port", text.chars().take(200).collect::<String>());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| is_number && *port != 0).ok_or_else(wrong)?;
        let host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) => inner.parse::<Ipv6Addr>().map_err(|_| wrong())?.to_string(),
            None => host.to_ascii_lowercase(),
        };
        let is_name = |name: &str| {
            let label = |label: &str| {
                !label.is_empty()
                    && label.len() < 64
                    && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            };
            name.len() < 254 && name.split('.').all(label)
        };
        // `127.1` and `0x7f.1` are addresses to some resolvers.
        let last = host.rsplit('.').next().unwrap_or_default();
        let odd =
            last.starts_with(|c: char| c.is_ascii_digit()) && host.parse::<Ipv4Addr>().is_err();
        if host.parse::<Ipv6Addr>().is_err() && (!is_name(&host) || odd) {
            return Err(wrong());
        }
        Ok(Self { host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_is_one_target() {
        let read = |text: &str| text.parse::<Target>().map(|target| target.to_string());
        assert_eq!(read("API.Example.com:443").unwrap(), "api.example.com:443");
        assert_eq!(read("[2001:DB8::1]:443").unwrap(), "[2001:db8::1]:443");
        assert_eq!(read("127.0.0.1:80").unwrap(), "127.0.0.1:80");
        for wrong in [
            "example.com",
            "example.com.:443",
            "example.com:0",
            "example.com:65536",
            "example.com:+80",
            ":443",
            "a b:443",
            "127.1:80",
            "0x7f.0.0.1:80",
            "2130706433:80",
            "[::1:80",
            "a..b:1",
            "user@host:1",
            "*.x:443",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
