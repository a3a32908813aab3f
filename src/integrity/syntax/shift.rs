//! Changes what tests expect, so that a check that can tell right from wrong must turn red.

use std::ops::Range;

use super::tree::Tree;
use super::{Language, TestItem, literal};

/// How many changes are tried one by one where all together do not parse.
const MOST_SINGLE: usize = 200;

/// Changes every expected literal of `items`, which must come from a scan of this very `text`.
///
/// Numbers grow, texts get a word more, truth values flip; all other bytes stay. A change after which the
/// file no longer parses is left out. None where nothing is left to change.
pub fn shift_expected(language: Language, text: &[u8], items: &[&TestItem]) -> Option<Vec<u8>> {
    let errors = Tree::parse(language, text)?.errors;
    let mut ranges: Vec<Range<usize>> =
        items.iter().flat_map(|item| item.expected.clone()).collect();
    ranges.sort_by_key(|range| (range.start, range.end));
    ranges.dedup();
    let mut end = 0;
    let mut changes = Vec::new();
    for range in ranges {
        let Some(old) = text.get(range.clone()) else { continue };
        if range.start < end {
            continue;
        }
        if let Some(new) = shifted(language, old).filter(|new| new != old) {
            end = range.end;
            changes.push((range, new));
        }
    }
    let parses = |changes: &[(Range<usize>, Vec<u8>)]| {
        let candidate = applied(text, changes);
        Tree::parse(language, &candidate)
            .filter(|tree| tree.errors <= errors)
            .is_some()
            .then_some(candidate)
    };
    if changes.is_empty() {
        return None;
    }
    if let Some(candidate) = parses(&changes) {
        return Some(candidate);
    }
    changes.truncate(MOST_SINGLE);
    changes.retain(|change| parses(std::slice::from_ref(change)).is_some());
    if changes.is_empty() { None } else { parses(&changes) }
}

fn applied(text: &[u8], changes: &[(Range<usize>, Vec<u8>)]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len() + 16 * changes.len());
    let mut from = 0;
    for (range, new) in changes {
        result.extend_from_slice(text.get(from..range.start).unwrap_or_default());
        result.extend_from_slice(new);
        from = range.end;
    }
    result.extend_from_slice(text.get(from..).unwrap_or_default());
    result
}

/// Whether numbers have a width that a large step would leave.
fn is_sized(language: Language) -> bool {
    matches!(
        language,
        Language::Rust | Language::Go | Language::Java | Language::CSharp | Language::Cpp
    )
}

fn shifted(language: Language, old: &[u8]) -> Option<Vec<u8>> {
    match old {
        b"true" => return Some(b"false".to_vec()),
        b"false" => return Some(b"true".to_vec()),
        b"True" => return Some(b"False".to_vec()),
        b"False" => return Some(b"True".to_vec()),
        b"TRUE" => return Some(b"FALSE".to_vec()),
        b"FALSE" => return Some(b"TRUE".to_vec()),
        b"None" | b"nil" | b"null" | b"NULL" => {
            return (!is_sized(language)).then(|| b"0".to_vec());
        }
        _ => {}
    }
    if let Some(inner) = literal::quotes(old) {
        let prefix = old.iter().position(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
        let letters = old.get(..prefix)?;
        let is_character = is_sized(language) && old.get(prefix) == Some(&b'\'');
        // The length of a byte string is part of its type in Rust.
        let keeps_length = language == Language::Rust && letters.contains(&b'b');
        if is_character || keeps_length {
            return next_character(old, inner, is_character);
        }
        // `R"x(..)x"` ends before its last quote.
        if language == Language::Cpp && letters.contains(&b'R') {
            return None;
        }
        let mut new = old.to_vec();
        new.splice(inner.end..inner.end, *b" loopexec");
        return Some(new);
    }
    let text = std::str::from_utf8(old).ok()?;
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest.trim_start()),
        None => ("", text),
    };
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    number(language, sign, digits).map(String::into_bytes)
}

fn next_character(old: &[u8], inner: Range<usize>, whole: bool) -> Option<Vec<u8>> {
    let mut new = old.to_vec();
    if whole {
        let next = match old.get(inner.clone())? {
            [b'a'..=b'y' | b'A'..=b'Y' | b'0'..=b'8'] => *old.get(inner.start)? + 1,
            [b'z'] => b'a',
            _ => b'x',
        };
        new.splice(inner, [next]);
        return Some(new);
    }
    let last = inner.end.checked_sub(1).filter(|last| *last >= inner.start)?;
    let escaped = last > inner.start && old.get(last - 1) == Some(&b'\\');
    let byte = *old.get(last)?;
    if escaped || !byte.is_ascii_alphanumeric() {
        return None;
    }
    *new.get_mut(last)? = if byte == b'x' { b'y' } else { b'x' };
    Some(new)
}

fn number(language: Language, sign: &str, digits: &str) -> Option<String> {
    let lower = digits.to_ascii_lowercase();
    let (prefix, radix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (2, 16),
        [b'0', b'b', ..] => (2, 2),
        [b'0', b'o', ..] => (2, 8),
        // An old octal number; in Rust and Python zeros before a number mean nothing.
        [b'0', b'0'..=b'7', ..]
            if language != Language::Rust && !lower.contains(['.', 'e', '8', '9']) =>
        {
            (1, 8)
        }
        _ => (0, 10),
    };
    let body = &digits[prefix..];
    let separators = ['_', '\''];
    let length = body
        .find(|letter: char| !letter.is_digit(radix) && !separators.contains(&letter))
        .unwrap_or(body.len());
    let (integer, rest) = body.split_at(length);
    // `1_u8` and `1_000` both have underscores.
    let suffix = rest.to_ascii_lowercase();
    let is_float =
        radix == 10 && (suffix.starts_with(['.', 'e', 'f', 'd', 'm']) || suffix.starts_with("_f"));
    if is_float {
        return float(sign, digits);
    }
    let plain: String = integer.chars().filter(|letter| !separators.contains(letter)).collect();
    let value = u128::from_str_radix(&plain, radix).ok()?;
    if !is_sized(language) {
        let step = 7919;
        let (sign, value) = match (sign, value.checked_sub(step)) {
            ("-", Some(rest)) => ("-", rest),
            ("-", None) => ("", step - value),
            _ => ("", value.checked_add(step)?),
        };
        return Some(format!("{sign}{}{}{rest}", &digits[..prefix], in_radix(value, radix)));
    }
    let largest = [
        0x7f,
        0xff,
        0x7fff,
        0xffff,
        0x7fff_ffff,
        0xffff_ffff,
        0x7fff_ffff_ffff_ffff,
        0xffff_ffff_ffff_ffff,
        u128::MAX >> 1,
        u128::MAX,
    ];
    // A negative number may be the least of its type.
    let value = if sign == "-" || largest.contains(&value) {
        value.checked_sub(1)?
    } else {
        value.checked_add(1)?
    };
    Some(format!("{sign}{}{}{rest}", &digits[..prefix], in_radix(value, radix)))
}

fn in_radix(value: u128, radix: u32) -> String {
    match radix {
        16 => format!("{value:x}"),
        8 => format!("{value:o}"),
        2 => format!("{value:b}"),
        _ => value.to_string(),
    }
}

fn float(sign: &str, digits: &str) -> Option<String> {
    let length = digits
        .find(|letter: char| !letter.is_ascii_digit() && !matches!(letter, '.' | '_' | '\''))
        .unwrap_or(digits.len());
    let (mantissa, rest) = digits.split_at(length);
    let plain: String = mantissa.chars().filter(|l| !matches!(l, '_' | '\'')).collect();
    let value: f64 = plain.parse().ok()?;
    let next = value + 1.5;
    let changed = next.is_finite() && next.to_bits() != value.to_bits();
    // `_f32` keeps its underscore.
    let underscore = if mantissa.ends_with('_') { "_" } else { "" };
    changed.then(|| format!("{sign}{next:?}{underscore}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_expected_literals_change() {
        let cases = [
            (
                "a.py",
                "def test_a():\n    assert f(1) == 3\n    assert 'x' == g('y')\n    assert h(2) == [1, True]\n    assert 1 == 1\n",
                "def test_a():\n    assert f(1) == 7922\n    assert 'x loopexec' == g('y')\n    assert h(2) == [7920, False]\n    assert 1 == 1\n",
            ),
            (
                "a.py",
                "@pytest.mark.parametrize('a,want', [(1, 2), (3, None)])\ndef test_a(a, want):\n    assert f(a) == want\n",
                "@pytest.mark.parametrize('a,want', [(1, 7921), (3, 0)])\ndef test_a(a, want):\n    assert f(a) == want\n",
            ),
            (
                "a.rs",
                "#[test]\nfn a() {\n    assert_eq!(f(1), 255u8);\n    assert_eq!(g(), b\"ab\");\n    assert!(h() == 0x7f);\n    assert_eq!(c(), 'z');\n}\n",
                "#[test]\nfn a() {\n    assert_eq!(f(1), 254u8);\n    assert_eq!(g(), b\"ax\");\n    assert!(h() == 0x7e);\n    assert_eq!(c(), 'a');\n}\n",
            ),
            (
                "a_test.go",
                "package a\n\nfunc TestA(t *testing.T) {\n\tfor _, c := range []struct{ in, want int }{{1, 2}, {in: 3, want: 4}} {\n\t\tif F(c.in) != c.want {\n\t\t\tt.Error(1)\n\t\t}\n\t}\n\tif F(9) == 7 {\n\t\tt.Error(2)\n\t}\n}\n",
                "package a\n\nfunc TestA(t *testing.T) {\n\tfor _, c := range []struct{ in, want int }{{1, 3}, {in: 3, want: 5}} {\n\t\tif F(c.in) != c.want {\n\t\t\tt.Error(1)\n\t\t}\n\t}\n\tif F(9) == 7 {\n\t\tt.Error(2)\n\t}\n}\n",
            ),
            (
                "a.js",
                "it('a', () => { expect(f(1)).toEqual({ a: 2.5, b: 'c' }); assert.equal(g(), -3); });\n",
                "it('a', () => { expect(f(1)).toEqual({ a: 4.0, b: 'c loopexec' }); assert.equal(g(), 7916); });\n",
            ),
            (
                "a.rb",
                "describe 'a' do\n  it('b') { expect(f(1)).to eq 2 }\nend\n",
                "describe 'a' do\n  it('b') { expect(f(1)).to eq 7921 }\nend\n",
            ),
        ];
        for (path, text, changed) in cases {
            let language = Language::of(path).unwrap();
            let scan = super::super::scan(language, text.as_bytes()).unwrap();
            let items: Vec<_> = scan.items.iter().collect();
            let shifted = shift_expected(language, text.as_bytes(), &items).expect(path);
            assert_eq!(String::from_utf8(shifted).unwrap(), changed);
        }
        // What may not run, or has to fail, proves nothing by staying green.
        let silent = [
            (
                "a.py",
                "def test_a():\n    if old():\n        assert f(1) == 3\n    with pytest.raises(TypeError):\n        assert f(2) == 4\n    try:\n        assert f(3) == 5\n    except AssertionError:\n        pass\n",
            ),
            (
                "a_test.go",
                "package a\n\nfunc TestA(t *testing.T) {\n\tif err := F(); err != nil {\n\t\tt.Fatal(err)\n\t}\n\tif old() {\n\t\tif G() != 3 {\n\t\t\tt.Error(1)\n\t\t}\n\t}\n}\n",
            ),
            (
                "a.js",
                "it('a', () => { expect(() => { expect(f()).toBe(3); }).toThrow(); if (old()) { expect(f()).toBe(4); } });\n",
            ),
            ("a.rs", "#[test]\nfn a() {\n    if old() {\n        assert_eq!(f(), 3);\n    }\n}\n"),
            (
                "a.rb",
                "describe 'a' do\n  it('b') { expect { expect(f).to eq 2 }.to raise_error }\nend\n",
            ),
        ];
        for (path, text) in silent {
            let language = Language::of(path).unwrap();
            let scan = super::super::scan(language, text.as_bytes()).unwrap();
            let items: Vec<_> = scan.items.iter().collect();
            assert_eq!(shift_expected(language, text.as_bytes(), &items), None, "{path}");
        }
        let plain = b"def test_a():\n    assert f()\n";
        let scan = super::super::scan(Language::Python, plain).unwrap();
        let items: Vec<_> = scan.items.iter().collect();
        assert_eq!(shift_expected(Language::Python, plain, &items), None);
    }
}
