//! Adds up a ledger: one line an entry, a name and an amount with a comma between.

/// Returns the sum in cents, or the number of the first line that is no entry.
pub fn sum(text: &str) -> Result<u64, usize> {
    text.lines().enumerate().try_fold(0, |sum, (number, line)| {
        let amount = line.rsplit_once(',').and_then(|(_, amount)| money::cents(amount.trim()));
        amount.map(|amount| sum + amount).ok_or(number + 1)
    })
}
