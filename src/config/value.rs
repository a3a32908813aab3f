//! The small notations of the loop file: durations, sizes, money, slugs.
//!
//! Each parser answers with what is wrong as the end of a sentence; the place is the caller's.

use serde::Serialize;
use std::time::Duration;

/// An amount of money in millionths of a dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct MicroDollars(pub i64);

/// Reads a duration: whole numbers with `ms`, `s`, `m`, `h` or `d`, largest unit first (`1h30m`).
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    const FORM: &str = "a duration is written like `90s`, `10m`, `2h` or `1h30m`";
    const UNITS: [(&str, u64); 5] =
        [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("{FORM}, with a unit"));
    }
    let (mut rest, mut total, mut last) = (text, 0_u64, u64::MAX);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let (Ok(number), Some((_, scale))) =
            (number.parse::<u64>(), UNITS.iter().find(|(name, _)| *name == unit))
        else {
            return Err(FORM.to_owned());
        };
        if *scale >= last {
            return Err(FORM.to_owned());
        }
        total = number
            .checked_mul(*scale)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(|| "that is longer than a clock can hold".to_owned())?;
        (rest, last) = (tail, *scale);
    }
    if last == u64::MAX { Err(FORM.to_owned()) } else { Ok(Duration::from_millis(total)) }
}

/// Writes a duration the way `parse_duration` reads it; parts under a millisecond are dropped.
pub fn format_duration(duration: Duration) -> String {
    let mut rest = duration.as_millis();
    let mut text = String::new();
    for (unit, scale) in
        [("d", 86_400_000_u128), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)]
    {
        if rest >= scale {
            text.push_str(&format!("{}{unit}", rest / scale));
            rest %= scale;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Reads a size in bytes: a whole number with `B`, `kB`, `MB`, `GB`, `TB` or `KiB`, `MiB`, `GiB`, `TiB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    const FORM: &str = "a size is written like `64MiB`, `2GiB` or `1MB`";
    const UNITS: [(&str, u64); 10] = [
        ("B", 1),
        ("KB", 1_000),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ];
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if digits > 0 && unit.is_empty() {
        return Err(format!("{FORM}, with a unit"));
    }
    let (Ok(number), Some((_, scale))) =
        (number.parse::<u64>(), UNITS.iter().find(|(name, _)| *name == unit.trim_start()))
    else {
        return Err(FORM.to_owned());
    };
    number.checked_mul(*scale).ok_or_else(|| "that is more than a disk can hold".to_owned())
}

/// Writes a size the way `parse_size` reads it, in the largest binary unit that divides it.
pub fn format_size(bytes: u64) -> String {
    for (unit, scale) in
        [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
    {
        if bytes >= scale && bytes.is_multiple_of(scale) {
            return format!("{}{unit}", bytes / scale);
        }
    }
    format!("{bytes}B")
}

/// Reads decimal dollars with at most six places, up to a thousand million.
pub fn parse_money(text: &str) -> Result<MicroDollars, String> {
    const FORM: &str = "money is written as decimal dollars with at most six places, like `2.50`";
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(places) || text.ends_with('.') {
        return Err(FORM.to_owned());
    }
    if places.len() > 6 {
        return Err(format!("{FORM}; here are {} places", places.len()));
    }
    let dollars = whole.parse::<i64>().ok().filter(|d| *d <= 1_000_000_000);
    let micros = format!("{places:0<6}").parse::<i64>().ok();
    match (dollars, micros) {
        (Some(dollars), Some(micros)) => Ok(MicroDollars(dollars * 1_000_000 + micros)),
        _ => Err("that is over a thousand million dollars".to_owned()),
    }
}

/// Writes an amount as dollars, with two to six places.
pub fn format_money(amount: MicroDollars) -> String {
    let micros = amount.0.unsigned_abs();
    let mut text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    while text.ends_with('0') && !text.ends_with(".00") && text.len() > 4 {
        let places = text.len() - text.find('.').unwrap_or(0) - 1;
        if places <= 2 {
            break;
        }
        text.pop();
    }
    if amount.0 < 0 { format!("-{text}") } else { text }
}

/// Says whether a text is a slug: `[a-z0-9-]{1,40}`.
pub fn is_slug(text: &str) -> bool {
    (1..=40).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Turns any text into a slug; one without a usable character becomes `loop`.
pub fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= 40 {
            break;
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "loop".to_owned() } else { slug.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_have_units_in_falling_order() {
        let seconds = |s| Ok(Duration::from_secs(s));
        assert_eq!(parse_duration("90s"), seconds(90));
        assert_eq!(parse_duration("1h30m"), seconds(5400));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2d"), seconds(172_800));
        for bad in [
            "",
            "10",
            "m",
            "-1s",
            "1.5h",
            "10 m",
            "30m1h",
            "1m1m",
            "1x",
            "99999999999999999999s",
            "9999999999999999d",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("1MB"), Ok(1_000_000));
        assert_eq!(parse_size("2 GiB"), Ok(2 << 30));
        assert_eq!(parse_size("0B"), Ok(0));
        for bad in ["", "64", "64M", "-1MiB", "1.5GiB", "99999999TiB", "MiB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn money_is_exact() {
        assert_eq!(parse_money("2.50"), Ok(MicroDollars(2_500_000)));
        assert_eq!(parse_money("0.000001"), Ok(MicroDollars(1)));
        assert_eq!(parse_money("10"), Ok(MicroDollars(10_000_000)));
        for bad in [
            "",
            ".5",
            "5.",
            "-1",
            "$5",
            "1e3",
            "0.0000001",
            "1,5",
            "1000000001",
            "99999999999999999999",
        ] {
            assert!(parse_money(bad).is_err(), "{bad}");
        }
        assert_eq!(format_money(MicroDollars(2_500_000)), "2.50");
        assert_eq!(format_money(MicroDollars(1)), "0.000001");
        assert_eq!(format_money(MicroDollars(0)), "0.00");
    }

    #[test]
    fn every_text_becomes_a_slug() {
        assert_eq!(slug("My Loop (v2)"), "my-loop-v2");
        assert_eq!(slug("…"), "loop");
        assert_eq!(slug(&"x".repeat(90)).len(), 40);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(ms in 0_u64..=10_000_000_000, bytes in any::<u64>(), micros in 0_i64..=1_000_000_000_000) {
            prop_assert_eq!(parse_duration(&format_duration(Duration::from_millis(ms))), Ok(Duration::from_millis(ms)));
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
            prop_assert_eq!(parse_money(&format_money(MicroDollars(micros))), Ok(MicroDollars(micros)));
        }

        #[test]
        fn slugs_are_slugs(text in "\\PC{0,80}") {
            prop_assert!(is_slug(&slug(&text)));
        }
    }
}
