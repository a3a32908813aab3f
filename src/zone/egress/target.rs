//! A `host:port` that may be reached, and which addresses are public.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
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
    pub(super) fn is_local_name(&self) -> bool {
        self.host == "localhost"
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

/// Says whether an address belongs to the internet at large: not to this machine, a private network, a link,
/// a carrier, a cloud's metadata service, a documentation or benchmark range (IANA special-purpose registries,
/// RFC 6890), nor to one of these inside an IPv6 address.
pub(super) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => {
            let [a, b, .., g, h] = ip.segments();
            let embedded = |high: u16, low: u16| {
                let [x, y] = high.to_be_bytes();
                let [z, w] = low.to_be_bytes();
                is_public_v4(Ipv4Addr::new(x, y, z, w))
            };
            match (a, b) {
                // Mapped and translated addresses, and 6to4.
                _ if ip.to_ipv4_mapped().is_some() => embedded(g, h),
                (0x64, 0xff9b) => embedded(g, h),
                (0x2002, _) => embedded(b, ip.segments()[2]),
                (0x2001, 0x0db8 | 0..=0x1ff) => false,
                // Global unicast is 2000::/3 and nothing else.
                _ => (a & 0xe000) == 0x2000,
            }
        }
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    !(ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_broadcast()
        || ip.is_documentation()
        || ip.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
        // Metadata of a cloud, in a range that is public otherwise.
        || ip == Ipv4Addr::new(168, 63, 129, 16))
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

    #[test]
    fn only_the_internet_is_public() {
        for public in ["1.1.1.1", "2606:4700::1111", "64:ff9b::101:101", "::ffff:8.8.8.8"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for private in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "198.18.0.1",
            "168.63.129.16",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2001:db8::1",
            "fd00:ec2::254",
            "2001:0:1::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
    }
}
