//! Feeds any bytes to the reader of jsonl results: it must not panic, and what it says must fit together.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopexec::integrity::results::parse;

fuzz_target!(|bytes: &[u8]| {
    let roots = ["/w".to_owned()];
    let mut text = b"{\"k\":\"start\",\"runner\":\"pytest\",\"cwd\":\"/w\"}\n".to_vec();
    text.extend_from_slice(bytes);
    let Some(results) = parse::jsonl(&text, &roots) else { return };
    for set in [&results.passed, &results.failed, &results.skipped] {
        assert!(set.is_subset(&results.collected));
    }
    assert!(results.executed.keys().all(|id| results.passed.contains(id)));
    assert!(results.collected.iter().all(|id| id.len() <= 530));
    assert!(results.failures.iter().all(|failure| failure.message.len() <= 4200));
});
