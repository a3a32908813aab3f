//! Expressions of the platforms inside texts: finding them, and filling in what is known of them.
//!
//! What is known is the caller's `--set`, literal variables of the file, and texts in quotes; nothing
//! is evaluated.

use super::frame::Edit;

/// How a platform writes what it fills in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// GitHub: `${{ … }}`.
    Braces,
    /// GitLab, in what an include is given: `$[[ … ]]`.
    Brackets,
    /// GitLab, in a variable that is not `expand: false`: `$NAME`, `${NAME}`, `%NAME%`; `$$` is a dollar.
    Dollars,
}

/// What `--set` gave, as typed: `K=V`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sets(pub(crate) Vec<String>);

impl Sets {
    /// Returns what an expression stands for; blanks and case make no difference, as on the platforms.
    pub(crate) fn get(&self, expression: &str) -> Option<&str> {
        let wanted = squeeze(expression);
        self.0.iter().rev().find_map(|set| value_for(set, &wanted))
    }

    /// Returns those that name none of some expressions.
    pub(crate) fn unused<'a>(&'a self, used: &[String]) -> Vec<&'a str> {
        let used: Vec<String> = used.iter().map(|expression| squeeze(expression)).collect();
        self.0
            .iter()
            .filter(|set| !used.iter().any(|used| value_for(set, used).is_some()))
            .map(|set| set.split('=').next().unwrap_or(set))
            .collect()
    }
}

/// Returns the value of `K=V` for one expression, which may hold `==` itself.
fn value_for<'a>(set: &'a str, wanted: &str) -> Option<&'a str> {
    set.match_indices('=').find_map(|(index, _)| {
        let (key, value) = (set.get(..index)?, set.get(index + 1..)?);
        let compares = key.ends_with(['=', '!', '<', '>']) || value.starts_with('=');
        (!compares && squeeze(key) == wanted).then_some(value)
    })
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// A text whose expressions are filled in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    /// The text.
    pub(crate) text: String,
    /// What was filled in, in the order of the text.
    pub(crate) edits: Vec<Edit>,
    /// Whether something filled in has more than one line, so that later lines moved.
    pub(crate) moved: bool,
}

/// An expression that nothing is known of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// Line in the text, from 1.
    pub(crate) line: usize,
    /// Column in characters, from 1.
    pub(crate) column: usize,
    /// Its length in characters.
    pub(crate) len: usize,
    /// Its text without what encloses it; `None` where it is never closed or no name.
    pub(crate) expression: Option<String>,
}

/// One expression in a text: its bytes, and what it says.
struct Found {
    start: usize,
    end: usize,
    inner: Option<String>,
}

/// Fills in the expressions of a text.
///
/// # Errors
/// The first expression that is not known.
pub(crate) fn fill(
    text: &str,
    syntax: Syntax,
    known: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<Filled, Unknown> {
    let mut filled = Filled::default();
    let mut done = 0;
    // Counted on the way: a text may hold very many expressions.
    let (mut line, mut column) = (1, 1);
    while let Some(found) = next(text, done, syntax) {
        let before = text.get(done..found.start).unwrap_or_default();
        filled.text.push_str(before);
        advance(&mut line, &mut column, before);
        let value = match &found.inner {
            Some(inner) => quoted(inner, syntax).or_else(|| known(inner)),
            None => None,
        };
        let old = text.get(found.start..found.end).unwrap_or_default();
        let Some(value) = value else {
            let (line, column) = place_after(text.get(..found.start).unwrap_or_default());
            let len = old.lines().next().unwrap_or("").chars().count().max(1);
            return Err(Unknown { line, column, len, expression: found.inner });
        };
        let (new, old_len) = (value.chars().count(), old.chars().count());
        filled.edits.push(Edit { line, column, new, old: old_len });
        filled.moved |= value.contains('\n') || old.contains('\n');
        filled.text.push_str(&value);
        advance(&mut line, &mut column, &value);
        done = found.end;
    }
    filled.text.push_str(text.get(done..).unwrap_or_default());
    Ok(filled)
}

/// Returns the expressions of a text.
pub(crate) fn expressions(text: &str, syntax: Syntax) -> Vec<String> {
    let (mut done, mut all) = (0, Vec::new());
    while let Some(found) = next(text, done, syntax) {
        all.extend(found.inner);
        done = found.end;
    }
    all
}

/// Moves a place past a text.
fn advance(line: &mut usize, column: &mut usize, text: &str) {
    match text.rsplit_once('\n') {
        Some((before, last)) => {
            *line += before.matches('\n').count() + 1;
            *column = last.chars().count() + 1;
        }
        None => *column += text.chars().count(),
    }
}

/// Returns line and column right after a text.
fn place_after(text: &str) -> (usize, usize) {
    let (mut line, mut column) = (1, 1);
    advance(&mut line, &mut column, text);
    (line, column)
}

/// Returns what a text in single quotes stands for, which is how `${{` itself is written.
fn quoted(inner: &str, syntax: Syntax) -> Option<String> {
    if syntax == Syntax::Dollars {
        return (inner == "$").then(|| "$".to_owned());
    }
    let text = inner.strip_prefix('\'')?.strip_suffix('\'')?;
    let bare = text.replace("''", "");
    (!bare.contains('\'')).then(|| text.replace("''", "'"))
}

fn next(text: &str, from: usize, syntax: Syntax) -> Option<Found> {
    match syntax {
        Syntax::Braces => enclosed(text, from, "${{", "}}"),
        Syntax::Brackets => enclosed(text, from, "$[[", "]]"),
        Syntax::Dollars => dollar(text, from),
    }
}

fn enclosed(text: &str, from: usize, open: &str, close: &str) -> Option<Found> {
    let start = from + text.get(from..)?.find(open)?;
    let body = text.get(start + open.len()..)?;
    let mut in_quotes = false;
    for (index, c) in body.char_indices() {
        if c == '\'' {
            in_quotes = !in_quotes;
        }
        if !in_quotes && body.get(index..).is_some_and(|rest| rest.starts_with(close)) {
            let inner = body.get(..index).unwrap_or_default().trim().to_owned();
            return Some(Found {
                start,
                end: start + open.len() + index + close.len(),
                inner: Some(inner),
            });
        }
    }
    Some(Found { start, end: text.len(), inner: None })
}

fn dollar(text: &str, from: usize) -> Option<Found> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut at = from;
    loop {
        let start = at + text.get(at..)?.find(['$', '%'])?;
        let sign = text.get(start..=start)?;
        let rest = text.get(start + 1..)?;
        let name_of = |rest: &str| rest.chars().take_while(|c| is_name(*c)).collect::<String>();
        if sign == "%" {
            let name = name_of(rest);
            let closed = rest.get(name.len()..).is_some_and(|rest| rest.starts_with('%'));
            if !name.is_empty() && closed {
                return Some(Found { start, end: start + name.len() + 2, inner: Some(name) });
            }
            at = start + 1;
            continue;
        }
        if rest.starts_with('$') {
            return Some(Found { start, end: start + 2, inner: Some("$".to_owned()) });
        }
        if let Some(braced) = rest.strip_prefix('{') {
            let name = name_of(braced);
            let closed = braced.get(name.len()..).is_some_and(|rest| rest.starts_with('}'));
            let inner = (closed && !name.is_empty()).then(|| name.clone());
            let end = start + 2 + name.len() + usize::from(closed);
            return Some(Found { start, end, inner });
        }
        let name = name_of(rest);
        let inner = (!name.is_empty()).then(|| name.clone());
        return Some(Found { start, end: start + 1 + name.len(), inner });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, syntax: Syntax, sets: &[&str]) -> Result<String, Unknown> {
        let sets = Sets(sets.iter().map(|set| (*set).to_owned()).collect());
        fill(text, syntax, &mut |expression| sets.get(expression).map(str::to_owned))
            .map(|filled| filled.text)
    }

    #[test]
    fn what_is_given_is_filled_in_everywhere() {
        let text = "a ${{ matrix.py }} b ${{matrix.PY}} c";
        assert_eq!(
            filled(text, Syntax::Braces, &["matrix.py=3.11"]).as_deref(),
            Ok("a 3.11 b 3.11 c")
        );
        let compared = "${{ github.ref == 'refs/heads/main' }}";
        let set = ["github.ref == 'refs/heads/main'=true"];
        assert_eq!(filled(compared, Syntax::Braces, &set).as_deref(), Ok("true"));
        assert_eq!(filled("$[[ inputs.x ]]", Syntax::Brackets, &["inputs.x="]).as_deref(), Ok(""));
        assert_eq!(
            filled("${{ '${{ it''s }}' }}", Syntax::Braces, &[]).as_deref(),
            Ok("${{ it's }}")
        );
    }

    #[test]
    fn what_is_not_known_is_pointed_at() {
        let missing = filled("é\n b ${{ a.b }}", Syntax::Braces, &["a.c=1"]).unwrap_err();
        assert_eq!((missing.line, missing.column, missing.len), (2, 4, 10));
        assert_eq!(missing.expression.as_deref(), Some("a.b"));
        assert_eq!(filled("x ${{ a", Syntax::Braces, &[]).unwrap_err().expression, None);
        // A prefix of a comparison is no name of its own.
        assert!(filled("${{ a }}", Syntax::Braces, &["a == b=1"]).is_err());
    }

    #[test]
    fn gitlab_reads_dollars_and_percents() {
        let set = ["X=1"];
        assert_eq!(
            filled("$$ $X ${X} %X% 5% %", Syntax::Dollars, &set).as_deref(),
            Ok("$ 1 1 1 5% %")
        );
        for text in ["$Y", "${Y}", "%Y%m%d", "$(x)", "${X:-1}", "$", "é$"] {
            assert!(filled(text, Syntax::Dollars, &set).is_err(), "{text}");
        }
    }

    #[test]
    fn what_no_expression_takes_is_named() {
        let sets = Sets(vec!["a=1".to_owned(), "b == c=2".to_owned(), "d=3".to_owned()]);
        assert_eq!(sets.unused(&["A".to_owned(), "b  == c".to_owned()]), ["d"]);
    }
}
