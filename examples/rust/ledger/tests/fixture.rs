//! Reads a fixture by an absolute path that the compiler puts in.

#[test]
fn the_fixture_adds_up() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/march.csv");
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(ledger::sum(&text), Ok(24_050));
}

#[test]
fn a_line_without_an_amount_is_named() {
    assert_eq!(ledger::sum("tea, 1.50\ncake\n"), Err(2));
}
