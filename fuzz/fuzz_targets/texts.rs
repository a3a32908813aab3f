//! Feeds any bytes to the readers of small formats, by the first byte: they must not panic, and what they say must fit together.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopexec::integrity::results::parse;

fuzz_target!(|bytes: &[u8]| {
    let roots = ["/w".to_owned()];
    let Some((which, bytes)) = bytes.split_first() else { return };
    let results = match which % 4 {
        0 => {
            let mut text = b"Test project /w\n".to_vec();
            text.extend_from_slice(bytes);
            parse::ctest(&text, &roots)
        }
        1 => parse::teamcity(bytes, &roots),
        2 => parse::gtest(bytes, &roots),
        _ => parse::jvm(bytes, &roots),
    };
    for set in [&results.passed, &results.failed, &results.skipped] {
        assert!(set.is_subset(&results.collected));
    }
    assert!(results.executed.keys().all(|id| results.passed.contains(id)));
    assert!(results.collected.iter().all(|id| id.len() <= 530));
    assert!(results.failures.iter().all(|failure| failure.message.len() <= 4200));
});
