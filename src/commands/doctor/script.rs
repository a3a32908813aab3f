//! What in a check's text can hide a red: `|| true`, `; true`, a trailing `&`, `set +e`.
//!
//! Whether a pipe needs bash is `process::shell`'s.

/// Names what in a script can hide a red, each as it is written there.
pub fn swallows(script: &str) -> Vec<&'static str> {
    let code = code_of(script);
    let mut found = Vec::new();
    let mut note = |sign: &'static str| {
        if !found.contains(&sign) {
            found.push(sign);
        }
    };
    for line in code.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.windows(2) {
            match pair {
                ["||", "true"] => note("|| true"),
                ["||", ":"] => note("|| :"),
                ["set", "+e"] => note("set +e"),
                [";", "true"] => note("; true"),
                [";", ":"] => note("; :"),
                _ => {}
            }
        }
        if words.windows(3).any(|three| three == ["||", "exit", "0"]) {
            note("|| exit 0");
        }
        if words.last() == Some(&"&") {
            note("a trailing &");
        }
    }
    let last = code.lines().map(str::trim).rfind(|line| !line.is_empty());
    if matches!(last, Some("true" | ":" | "exit 0")) && code.trim().contains('\n') {
        note("a last line that is always green");
    }
    found
}

/// Returns the code of a script without quoted text and comments, operators set off by spaces.
fn code_of(script: &str) -> String {
    let mut code = String::new();
    let mut chars = script.chars().peekable();
    let mut quote = None;
    while let Some(c) = chars.next() {
        if let Some(open) = quote {
            match c {
                '\\' if open == '"' => drop(chars.next()),
                c if c == open => quote = None,
                _ => {}
            }
            continue;
        }
        match c {
            // What is quoted is one word, whatever stands in it.
            '\'' | '"' => {
                quote = Some(c);
                code.push('_');
            }
            '\\' => match chars.next() {
                Some('\n') => code.push(' '),
                _ => code.push('_'),
            },
            '#' if code.ends_with(|c: char| c.is_whitespace()) || code.is_empty() => {
                while chars.peek().is_some_and(|c| *c != '\n') {
                    chars.next();
                }
            }
            '|' | '&' if chars.peek() == Some(&c) => {
                chars.next();
                code.extend([' ', c, c, ' ']);
            }
            // A redirection: `2>&1`, `&>file`.
            '&' if code.ends_with(['>', '<']) || chars.peek() == Some(&'>') => code.push('_'),
            ';' | '&' | '|' | '(' | ')' => code.extend([' ', c, ' ']),
            c => code.push(c),
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_a_red_is_named() {
        for (script, sign) in [
            ("pytest || true", "|| true"),
            ("pytest||true", "|| true"),
            ("a && b; true", "; true"),
            ("pytest &", "a trailing &"),
            ("set +e\npytest\nexit $?", "set +e"),
            ("pytest || exit 0", "|| exit 0"),
            ("pytest\nexit 0", "a last line that is always green"),
            ("make test || :", "|| :"),
        ] {
            assert_eq!(swallows(script), [sign], "{script}");
        }
    }

    #[test]
    fn its_neighbours_are_not() {
        for script in [
            "pytest -q",
            "a && b",
            "a || exit 1",
            "echo '|| true'",
            "pytest # || true",
            "pytest 2>&1 | tee log",
            "pytest &> log",
            "trueish || truest",
            "grep \"; true\" x",
            "server & pid=$!\ntest",
            "true",
        ] {
            assert_eq!(swallows(script), Vec::<&str>::new(), "{script}");
        }
    }
}
