//! Amounts of money as whole cents.

/// Reads an amount such as `12`, `12.3` or `12.30`; more than two digits after the point are none.
pub fn cents(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let whole: u64 = whole.parse().ok()?;
    let unit = match fraction.len() {
        1 => 1,
        2 => 1,
        _ => return None,
    };
    let fraction: u64 = fraction.parse().ok()?;
    whole.checked_mul(100)?.checked_add(fraction * unit)
}

#[cfg(test)]
mod tests {
    use super::cents;

    #[test]
    fn whole_amounts() {
        assert_eq!(cents("12"), Some(1200));
    }

    #[test]
    fn two_digits() {
        assert_eq!(cents("12.30"), Some(1230));
        assert_eq!(cents("12.345"), None);
    }

    #[test]
    fn one_digit() {
        assert_eq!(cents("12.3"), Some(1230));
    }
}
