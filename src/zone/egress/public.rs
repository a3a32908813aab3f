//! Which addresses are public.

use std::net::{IpAddr, Ipv4Addr};

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
