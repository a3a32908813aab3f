//! The protocol against a results server that conflicts, fails, stalls and refuses.

use crate::results::{Fault, How, Results, Spelling};
use loopexec::ci::artifact::{Request, ResultsService, Uploaded, upload};
use loopexec::ci::http;
use loopexec::error::Error;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn service(results: &Results) -> ResultsService {
    service_at(&format!("{}/some/path", results.uri()))
}

fn service_at(uri: &str) -> ResultsService {
    ResultsService::from_env(|name| match name {
        "ACTIONS_RUNTIME_TOKEN" => Some(Results::token().to_owned()),
        "ACTIONS_RESULTS_URL" => Some(uri.to_owned()),
        "GITHUB_SERVER_URL" => Some("https://github.com".to_owned()),
        "GITHUB_REPOSITORY" => Some("o/r".to_owned()),
        "GITHUB_RUN_ID" => Some("5".to_owned()),
        _ => None,
    })
    .unwrap()
}

fn zip(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.zip");
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

async fn send(
    results: &Results,
    bytes: &[u8],
    within: Duration,
) -> (Result<Uploaded, Error>, Vec<String>) {
    let (_dir, zip) = zip(bytes);
    let mut masks = Vec::new();
    let request = Request {
        name: "loopexec-fix-test-1",
        zip: &zip,
        retention_days: Some(7),
        deadline: Instant::now() + within,
    };
    let client = http::client().unwrap();
    let outcome = upload(&client, &service(results), &request, &mut |mask| {
        masks.push(mask.to_owned());
    })
    .await;
    (outcome, masks)
}

/// Fails when an error names what must stay secret.
fn assert_no_secret(error: &Error) {
    let all = format!("{error} {:?} {error:?}", error.hints);
    for secret in ["sig=", "a%2Bb", "a+b/c", Results::token(), "c2VjcmV0"] {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
}

const LONG: Duration = Duration::from_secs(120);

#[tokio::test]
async fn what_is_sent_arrives_byte_for_byte_in_either_spelling() {
    let bytes: Vec<u8> =
        (0..20_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for spelling in [Spelling::Snake, Spelling::Camel] {
        let results = Results::start(spelling, &[]).await;
        let (outcome, masks) = send(&results, &bytes, LONG).await;
        let uploaded = outcome.unwrap();
        results.assert_in_order();
        assert!(results.content("loopexec-fix-test-1").unwrap() == bytes, "other bytes");
        assert_eq!(uploaded.id, "77");
        assert_eq!(
            uploaded.url.as_deref(),
            Some("https://github.com/o/r/actions/runs/5/artifacts/77")
        );
        assert_eq!(uploaded.size, 20_000_000);
        assert_eq!(uploaded.digest, format!("sha256:{}", loopexec::domain::hex::sha256(&bytes)));
        assert!(masks.contains(&"a%2Bb%2Fc%3D".to_owned()) && masks.contains(&"a+b/c=".to_owned()));
        let order: Vec<String> = results.seen().into_iter().map(|seen| seen.what).collect();
        assert_eq!(
            order,
            ["CreateArtifact", "block", "block", "block", "blocklist", "FinalizeArtifact"]
        );
        let mut create = results.seen_of("CreateArtifact")[0].json();
        let expires = create.as_object_mut().unwrap().remove("expires_at").unwrap();
        assert!(expires.as_str().unwrap().ends_with('Z'), "{expires}");
        assert_eq!(
            create,
            json!({
                "workflow_run_backend_id": "run-1", "workflow_job_run_backend_id": "job-2",
                "name": "loopexec-fix-test-1", "version": 4,
            })
        );
    }
}

#[tokio::test]
async fn a_taken_name_gets_a_number_and_nine_are_enough() {
    let results = Results::start(Spelling::Snake, &[]).await;
    for number in 1..=9 {
        let (outcome, _) = send(&results, b"zip", LONG).await;
        let expected = match number {
            1 => "loopexec-fix-test-1".to_owned(),
            number => format!("loopexec-fix-test-1-{number}"),
        };
        assert_eq!(outcome.unwrap().name, expected);
    }
    let error = send(&results, b"zip", LONG).await.0.unwrap_err();
    assert!(error.what.contains("loopexec-fix-test-1") && error.what.contains('9'), "{error}");
    results.assert_in_order();
}

#[tokio::test]
async fn twice_unavailable_is_waited_out() {
    for at in ["CreateArtifact", "block", "FinalizeArtifact"] {
        let twice =
            [Fault { at, how: How::Answer(503, "") }, Fault { at, how: How::Answer(503, "") }];
        let results = Results::start(Spelling::Snake, &twice).await;
        let (outcome, _) = send(&results, b"some zip", LONG).await;
        assert_eq!(outcome.unwrap().name, "loopexec-fix-test-1", "{at}");
        assert_eq!(results.seen_of(at).len(), 3);
        assert_eq!(results.content("loopexec-fix-test-1").unwrap(), b"some zip");
        results.assert_in_order();
    }
}

#[tokio::test]
async fn a_stall_is_over_by_the_deadline_and_says_where() {
    for at in ["CreateArtifact", "block", "blocklist", "FinalizeArtifact"] {
        let faults: Vec<_> = (0..9).map(|_| Fault { at, how: How::Stall }).collect();
        let results = Results::start(Spelling::Snake, &faults).await;
        let started = Instant::now();
        let (outcome, _) = send(&results, b"zip", Duration::from_millis(1500)).await;
        let took = started.elapsed();
        assert!(took < Duration::from_millis(2500), "{at}: {took:?}");
        let error = outcome.unwrap_err();
        assert!(error.what.contains("was not uploaded"), "{at}: {error}");
        assert_no_secret(&error);
    }
}

#[tokio::test]
async fn no_room_is_said_at_once_and_not_tried_again() {
    let quota = r#"{"code":"permission_denied","msg":"insufficient usage to create artifact"}"#;
    let fault = Fault { at: "CreateArtifact", how: How::Answer(403, quota) };
    let results = Results::start(Spelling::Snake, &[fault]).await;
    let error = send(&results, b"zip", LONG).await.0.unwrap_err();
    assert!(error.what.contains("used up"), "{error}");
    assert_eq!(results.seen().len(), 1);
}

#[tokio::test]
async fn refusals_are_told_without_the_token_or_the_signature() {
    let evil = r#"{"msg":"no\n::error::forged"}"#;
    for (at, answer) in [
        ("CreateArtifact", How::Answer(401, evil)),
        ("CreateArtifact", How::Answer(200, r#"{"ok":false}"#)),
        ("CreateArtifact", How::Answer(200, "no JSON")),
        (
            "CreateArtifact",
            How::Answer(200, r#"{"ok":true,"signed_upload_url":"file:///etc/passwd?sig=a%2Bb"}"#),
        ),
        ("block", How::Answer(403, "AuthenticationFailed sig=a%2Bb%2Fc%3D")),
        ("blocklist", How::Answer(400, "")),
        ("FinalizeArtifact", How::Answer(200, r#"{"ok":true,"artifact_id":"7\n::error::"}"#)),
        ("FinalizeArtifact", How::Answer(404, "")),
    ] {
        let results = Results::start(Spelling::Snake, &[Fault { at, how: answer.clone() }]).await;
        let error = send(&results, b"zip", LONG).await.0.unwrap_err();
        assert!(error.what.contains("was not uploaded"), "{at} {answer:?}: {error}");
        assert!(!error.what.contains('\n'), "{error}");
        assert_no_secret(&error);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_costs_no_more_than_the_deadline() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let service = service_at(&format!("http://127.0.0.1:{port}"));
    let (_dir, zip) = zip(b"zip");
    let deadline = Instant::now() + Duration::from_secs(2);
    let request = Request { name: "x", zip: &zip, retention_days: None, deadline };
    let client = http::client().unwrap();
    let error = upload(&client, &service, &request, &mut |_| {}).await.unwrap_err();
    assert!(Instant::now() < deadline + Duration::from_secs(1));
    assert_no_secret(&error);
    let missing = Request { zip: &zip.with_file_name("none"), ..request };
    let error = upload(&client, &service, &missing, &mut |_| {}).await.unwrap_err();
    assert!(error.what.contains("cannot read"), "{error}");
}
