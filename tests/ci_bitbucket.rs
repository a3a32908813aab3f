//! Bitbucket's report, sent through a proxy that answers as the pipeline's own does.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

#[path = "support/subject.rs"]
mod subject;

use loopexec::ci::http::Policy;
use loopexec::ci::others::bitbucket::{Place, Proxy, report, report_id, send};
use loopexec::domain::reason::HaltReason;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use subject::{HOSTILE, halted};
use wiremock::matchers::{any, method};
use wiremock::{Mock, MockServer, ResponseTemplate};

fn place() -> Place {
    Place { workspace: "team".into(), repository: "shop".into(), commit: "a".repeat(40) }
}

fn policy() -> Policy {
    Policy { attempts: 2, first_wait: Duration::from_millis(1), ..Policy::default() }
}

#[tokio::test]
async fn a_report_and_all_annotations_go_through_the_proxy_in_order() {
    let server = MockServer::start().await;
    let gone = Mock::given(method("DELETE")).respond_with(ResponseTemplate::new(404));
    gone.mount(&server).await;
    Mock::given(any()).respond_with(ResponseTemplate::new(200)).mount(&server).await;
    let proxy = Proxy::at(&server.uri(), "http://api.bitbucket.example").unwrap();
    let messages = vec![HOSTILE; 249];
    let subject = halted(Path::new("/w"), HaltReason::NoProgressDetected, &messages);
    send(&proxy, &policy(), &place(), &subject).await.unwrap();

    let requests = server.received_requests().await.unwrap();
    let asked: Vec<&str> = requests.iter().map(|request| request.method.as_str()).collect();
    assert_eq!(asked, ["DELETE", "PUT", "POST", "POST", "POST"]);
    let root = format!(
        "/2.0/repositories/team/shop/commit/{}/reports/{}",
        "a".repeat(40),
        report_id(&subject)
    );
    assert_eq!(requests[1].url.path(), root);
    assert_eq!(requests[1].headers["host"], "api.bitbucket.example");
    let sent: Value = serde_json::from_slice(&requests[1].body).unwrap();
    assert_eq!(sent, report(&subject));
    assert_eq!((&sent["result"], &sent["report_type"]), (&"FAILED".into(), &"TEST".into()));
    assert!(sent["data"].as_array().unwrap().len() <= 10);
    let mut ids = std::collections::BTreeSet::new();
    for request in &requests[2..] {
        assert_eq!(request.url.path(), format!("{root}/annotations"));
        let batch: Value = serde_json::from_slice(&request.body).unwrap();
        for annotation in batch.as_array().unwrap() {
            assert!(annotation["summary"].as_str().unwrap().chars().count() <= 450);
            assert!(annotation["details"].as_str().unwrap().chars().count() <= 2_000);
            assert!(ids.insert(annotation["external_id"].as_str().unwrap().to_owned()));
        }
    }
    assert_eq!(ids.len(), 250);
}

#[tokio::test]
async fn a_refusal_is_one_sentence() {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(ResponseTemplate::new(403)).mount(&server).await;
    let proxy = Proxy::at(&server.uri(), "http://api.bitbucket.example").unwrap();
    let subject = halted(Path::new("/w"), HaltReason::NoProgressDetected, &["m"]);
    let said = send(&proxy, &policy(), &place(), &subject).await.unwrap_err();
    assert!(said.contains("status 403") && !said.contains("http"), "{said}");
    assert_eq!(server.received_requests().await.unwrap().len(), 1, "nothing goes on after it");
}
