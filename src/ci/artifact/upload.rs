//! The protocol: create, blocks, list of blocks, finalize.
//!
//! An artifact can be neither changed nor replaced, so a name that is taken gets a number behind it.
//! The address that the blocks go to is signed: whoever has it can write, so its signature is handed
//! out for masking before anything else, and stands in no message.

use super::service::ResultsService;
use crate::ci::http::{self, Answer, Failed, Policy};
use crate::domain::hex;
use crate::error::{Error, Kind, Result};
use crate::receipt::format::timestamp;
use crate::report::text::one_line;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::cell::Cell;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// The most bytes of a block.
const BLOCK: usize = 8 << 20;

/// The last number that is put behind a name that is taken.
const LAST_SUFFIX: u32 = 9;

/// The version of Azure's block storage that the requests are written for.
const BLOB_VERSION: &str = "2021-12-02";

/// How long the service may take for one call, all attempts together.
const CALL: Duration = Duration::from_secs(60);

/// How long one block may take, all attempts together; http gives one attempt a third of it.
const BLOCK_TIME: Duration = Duration::from_secs(900);

/// What is to be uploaded.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The name wanted.
    pub name: &'a str,
    /// The zip.
    pub zip: &'a Path,
    /// For how long it is kept, in days; none is as the repository does.
    pub retention_days: Option<u32>,
    /// When it has to be over, done or not.
    pub deadline: Instant,
}

/// An artifact that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploaded {
    /// Its id.
    pub id: String,
    /// Its page, where the environment says enough to know it.
    pub url: Option<String>,
    /// Its name, with the number where the name was taken.
    pub name: String,
    /// `sha256:` and the digest of the zip, hexadecimal.
    pub digest: String,
    /// The length of the zip in bytes.
    pub size: u64,
}

/// Uploads a zip as an artifact.
///
/// `mask` is shown what must not stand in a log, as soon as it is known: `::add-mask::` it.
///
/// # Errors
/// `workspace_invalid` in one sentence without any secret: refused, out of quota, not done by the
/// deadline, the zip not readable.
pub async fn upload(
    client: &reqwest::Client,
    service: &ResultsService,
    request: &Request<'_>,
    mask: &mut dyn FnMut(&str),
) -> Result<Uploaded> {
    super::check_name(request.name)?;
    let started = Instant::now();
    let stage = Cell::new("created");
    let work = Work { client, service, request, stage: &stage };
    match tokio::time::timeout_at(request.deadline.into(), work.run(mask)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(failed(
            request.name,
            &format!(
                "it was not {} within the {} s there were",
                stage.get(),
                started.elapsed().as_secs_f32().ceil()
            ),
        )
        .hint("the receipt is still in the folder of the run")),
    }
}

struct Work<'a> {
    client: &'a reqwest::Client,
    service: &'a ResultsService,
    request: &'a Request<'a>,
    stage: &'a Cell<&'static str>,
}

/// What the service calls an artifact that was created.
struct Created {
    name: String,
    url: String,
}

impl Work<'_> {
    async fn run(&self, mask: &mut dyn FnMut(&str)) -> Result<Uploaded> {
        // Opened first: a name is used up once it is created.
        let mut file = self.open()?;
        let created = self.create().await?;
        masks_of(&created.url).iter().for_each(|secret| mask(secret));
        self.stage.set("uploaded");
        let (sha256, size) = self.send_blocks(&created, &mut file).await?;
        self.stage.set("finalized");
        let digest = format!("sha256:{sha256}");
        let body = json!({
            "workflow_run_backend_id": self.service.run,
            "workflow_job_run_backend_id": self.service.job,
            "name": created.name,
            "size": size.to_string(),
            "hash": digest,
        });
        let answer = self.call("FinalizeArtifact", &body).await?;
        let said = self.read_ok(&answer, "finalized")?;
        let id = match field(&said, "artifact_id", "artifactId") {
            Some(Value::String(id)) if id.bytes().all(|b| b.is_ascii_digit()) => id.clone(),
            Some(Value::Number(id)) => id.to_string(),
            _ => return Err(self.failed("the service gave it no id")),
        };
        let url = self.service.page.as_ref().map(|page| format!("{page}artifacts/{id}"));
        Ok(Uploaded { id, url, name: created.name, digest, size })
    }

    fn open(&self) -> Result<File> {
        let zip = self.request.zip;
        let file = File::open(zip).and_then(|file| match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(ErrorKind::InvalidInput.into()),
        });
        file.map_err(|e| {
            Error::io(Kind::WorkspaceInvalid, format!("cannot read {}", zip.display()), e)
        })
    }

    async fn create(&self) -> Result<Created> {
        let mut body = json!({
            "workflow_run_backend_id": self.service.run,
            "workflow_job_run_backend_id": self.service.job,
            "name": self.request.name,
            "version": 4,
        });
        if let Some(days) = self.request.retention_days {
            let kept = Duration::from_secs(u64::from(days) * 86_400);
            body["expires_at"] = json!(timestamp(SystemTime::now() + kept));
        }
        for number in 1..=LAST_SUFFIX {
            let name = match number {
                1 => self.request.name.to_owned(),
                number => format!("{}-{number}", self.request.name),
            };
            body["name"] = json!(name);
            let answer = self.call("CreateArtifact", &body).await?;
            if answer.status == 409 {
                continue;
            }
            let said = self.read_ok(&answer, "created")?;
            let url = field(&said, "signed_upload_url", "signedUploadUrl")
                .and_then(Value::as_str)
                .filter(|url| is_address(url))
                .ok_or_else(|| self.failed("the service gave no address to upload to"))?;
            return Ok(Created { name, url: url.to_owned() });
        }
        Err(self
            .failed(&format!("the run has artifacts of that name up to the number {LAST_SUFFIX}"))
            .hint("give it another name: ci.artifact_name, or the input artifact-name"))
    }

    /// Sends the zip block by block, in order, and the list of the blocks; returns digest and size.
    async fn send_blocks(&self, created: &Created, file: &mut File) -> Result<(String, u64)> {
        let (mut hasher, mut size, mut list) = (Sha256::new(), 0_u64, String::new());
        for number in 0_u32.. {
            let block = self.read_block(file)?;
            if block.is_empty() && number > 0 {
                break;
            }
            let ends = block.len() < BLOCK;
            hasher.update(&block);
            size += block.len() as u64;
            // All ids have one length, and letters and digits only.
            let id = BASE64_STANDARD.encode(format!("loopexec-{number:06}"));
            let url = with_query(&created.url, &format!("comp=block&blockid={id}"));
            self.put(BLOCK_TIME, &|| {
                self.client
                    .put(&url)
                    .header("x-ms-version", BLOB_VERSION)
                    .header("content-type", "application/octet-stream")
                    .body(block.clone())
            })
            .await?;
            list.push_str(&format!("<Latest>{id}</Latest>"));
            if ends {
                break;
            }
        }
        let url = with_query(&created.url, "comp=blocklist");
        let list = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?><BlockList>{list}</BlockList>"
        );
        self.put(CALL, &|| {
            self.client
                .put(&url)
                .header("x-ms-version", BLOB_VERSION)
                .header("content-type", "application/xml")
                .header("x-ms-blob-content-type", "application/zip")
                .body(list.clone())
        })
        .await?;
        Ok((hex::encode(&hasher.finalize()), size))
    }

    fn read_block(&self, file: &mut File) -> Result<Vec<u8>> {
        let mut block = Vec::with_capacity(BLOCK);
        file.take(BLOCK as u64).read_to_end(&mut block).map_err(|e| {
            let what = format!("cannot read {}", self.request.zip.display());
            Error::io(Kind::WorkspaceInvalid, what, e)
        })?;
        Ok(block)
    }

    async fn put(&self, most: Duration, build: &dyn Fn() -> RequestBuilder) -> Result<()> {
        let answer = http::send(&self.policy(most), build).await;
        let answer = answer.map_err(|e| self.lost("the storage", &e))?;
        match answer.is_ok() {
            true => Ok(()),
            false => Err(self.failed(&format!("the storage answered {}", answer.status))),
        }
    }

    async fn call(&self, method: &str, body: &Value) -> Result<Answer> {
        let url = format!(
            "{}/twirp/github.actions.results.api.v1.ArtifactService/{method}",
            self.service.origin
        );
        let text = body.to_string();
        let policy = self.policy(CALL);
        let answer = http::send(&policy, || {
            self.client
                .post(&url)
                .bearer_auth(&self.service.token)
                .header("content-type", "application/json")
                .body(text.clone())
        });
        answer.await.map_err(|e| self.lost("the service", &e))
    }

    fn policy(&self, most: Duration) -> Policy {
        let left = self.request.deadline.saturating_duration_since(Instant::now());
        Policy { total: most.min(left), ..Policy::default() }
    }

    /// Reads what the service says to a call, if it is a yes.
    fn read_ok(&self, answer: &Answer, what: &str) -> Result<Value> {
        let said: Option<Value> = serde_json::from_slice(&answer.body).ok();
        if answer.is_ok() {
            let said = said.filter(|said| said.get("ok") == Some(&Value::Bool(true)));
            return said.ok_or_else(|| self.failed(&format!("the service has not {what} it")));
        }
        let message = said.as_ref().and_then(|said| said.get("msg")).and_then(Value::as_str);
        let message = message.unwrap_or_default();
        if message.contains("insufficient usage") {
            return Err(self
                .failed("the storage for artifacts of this account is used up")
                .hint("delete old artifacts, or keep them for fewer days: ci.retention_days"));
        }
        let message = one_line(message, 200);
        Err(self.failed(&match message.is_empty() {
            true => format!("the service answered {}", answer.status),
            false => format!("the service answered {}: {message}", answer.status),
        }))
    }

    fn lost(&self, who: &str, failed: &Failed) -> Error {
        self.failed(&format!("{who} cannot be used: {}", failed.what))
    }

    fn failed(&self, why: &str) -> Error {
        failed(self.request.name, why)
    }
}

fn failed(name: &str, why: &str) -> Error {
    Error::new(Kind::WorkspaceInvalid, format!("the artifact {name:?} was not uploaded: {why}"))
}

/// Returns a value under either spelling of its name: the service's own, or that of its JSON.
fn field<'a>(said: &'a Value, snake: &str, camel: &str) -> Option<&'a Value> {
    said.get(snake).or_else(|| said.get(camel)).filter(|value| !value.is_null())
}

fn is_address(url: &str) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

/// Adds to the query of a signed address without touching a byte of what is signed.
fn with_query(url: &str, more: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}{more}")
}

/// Returns the signature of a signed address, as it stands there and as it reads.
fn masks_of(url: &str) -> Vec<String> {
    let Some((_, query)) = url.split_once('?') else { return Vec::new() };
    let raw = query.split('&').filter_map(|pair| pair.strip_prefix("sig="));
    let mut masks: Vec<String> = raw.filter(|raw| !raw.is_empty()).map(str::to_owned).collect();
    if let Ok(url) = reqwest::Url::parse(url) {
        let read = url.query_pairs().filter(|(key, _)| key == "sig");
        masks.extend(read.map(|(_, value)| value.into_owned()).filter(|value| !value.is_empty()));
        // `+` stands for itself in a signature that nobody encoded.
        masks.extend(masks.clone().iter().map(|mask| mask.replace(' ', "+")));
    }
    masks.sort();
    masks.dedup();
    masks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signed_part_of_an_address_stays_byte_for_byte() {
        let url = "http://h/b?sv=1&sig=a%2Bb+c%3D";
        assert_eq!(with_query(url, "comp=x"), format!("{url}&comp=x"));
        let parsed = reqwest::Url::parse(&with_query(url, "comp=x")).unwrap();
        assert_eq!(parsed.query(), Some("sv=1&sig=a%2Bb+c%3D&comp=x"));
        assert_eq!(with_query("http://h/b", "comp=x"), "http://h/b?comp=x");
    }

    #[test]
    fn a_signature_is_masked_as_it_stands_and_as_it_reads() {
        let masks = masks_of("https://h/b?se=2026&sig=ab%2Bc%2Fd%3D&sr=b");
        assert!(masks.contains(&"ab%2Bc%2Fd%3D".to_owned()));
        assert!(masks.contains(&"ab+c/d=".to_owned()));
        assert_eq!(masks_of("https://h/b?sig=a+b"), ["a b", "a+b"]);
        assert!(masks_of("https://h/b?sigx=a").is_empty() && masks_of("no address").is_empty());
    }
}
