//! The one way out of the agent zone: a proxy that connects to the listed `host:port` pairs and to nothing else.
//!
//! It speaks `CONNECT` (RFC 9110, section 9.3.6) behind a listener made inside the zone, so that what dials
//! is loopexec, in the host's network. A name is resolved once and stays with those addresses; addresses of
//! private networks and of cloud metadata are for those who list them; what is tunnelled to a public address
//! has to be TLS that names the very host. Every attempt is kept.

use crate::domain::observation::Attempt;
use crate::domain::target::Target;
use crate::error::{Error, Kind, Result};
use crate::process::Gate;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

mod hello;
mod public;

/// Bytes of a request's head that are read.
const LONGEST_HEAD: usize = 16 << 10;
/// Connections at a time.
const MOST_CONNECTIONS: usize = 256;
/// Bytes in each direction of one connection.
const MOST_BYTES: u64 = 8 << 30;
/// Time for a request's head, for a name, and for each address.
const ANSWER: Duration = Duration::from_secs(15);
/// Silence after which a connection is closed; models think for minutes.
const IDLE: Duration = Duration::from_secs(20 * 60);
/// Attempts that are kept, of those that were let through and of those that were not; later ones are only counted.
/// A flood of refused ones hides nothing that got out.
const MOST_ATTEMPTS: usize = 1000;

/// The proxy of one run, over all its commands.
#[derive(Debug)]
pub struct Egress {
    shared: Arc<Shared>,
    serving: Option<JoinHandle<()>>,
    /// The listener on this machine's own loopback, where the zone has none.
    own: Option<(std::net::TcpListener, u16)>,
}

#[derive(Debug)]
struct Shared {
    listed: Vec<Target>,
    /// What a request has to bring, where others of this machine can ask too.
    token: Option<String>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    pinned: BTreeMap<Target, Vec<IpAddr>>,
    attempts: Vec<Attempt>,
    /// Attempts beyond those that are kept.
    more: u64,
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an attempt before anything is dialled, and returns its place.
    fn note(&self, attempt: Attempt) -> Option<usize> {
        let mut known = self.known();
        let alike = known.attempts.iter().filter(|kept| kept.allowed == attempt.allowed).count();
        if alike >= MOST_ATTEMPTS {
            known.more += 1;
            return None;
        }
        known.attempts.push(attempt);
        Some(known.attempts.len() - 1)
    }

    fn change(&self, place: Option<usize>, change: impl FnOnce(&mut Attempt)) {
        let mut known = self.known();
        if let Some(attempt) = place.and_then(|place| known.attempts.get_mut(place)) {
            change(attempt);
        }
    }
}

impl Egress {
    /// Makes the proxy for a list of targets.
    pub fn new(listed: Vec<Target>) -> Self {
        let shared = Shared { listed, token: None, known: Mutex::default() };
        Self { shared: Arc::new(shared), serving: None, own: None }
    }

    /// Makes one that listens on this machine's loopback, and serves whoever brings the token.
    ///
    /// # Errors
    /// `isolation_unsatisfiable` where there is no port or no random number to be had.
    pub fn on_this_machine(listed: Vec<Target>) -> Result<Self> {
        let make = || -> io::Result<(std::net::TcpListener, u16, String)> {
            let mut bytes = [0; 32];
            io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = listener.local_addr()?.port();
            Ok((listener, port, crate::domain::hex::encode(&bytes)))
        };
        let (listener, port, token) = make().map_err(unopened)?;
        let shared = Shared { listed, token: Some(token), known: Mutex::default() };
        Ok(Self { shared: Arc::new(shared), serving: None, own: Some((listener, port)) })
    }

    /// Returns the port of the loopback that leads to it.
    pub fn port(&self) -> u16 {
        self.own.as_ref().map_or(super::kind::GATE, |(_, port)| *port)
    }

    /// Returns what a request has to bring.
    pub fn token(&self) -> Option<&str> {
        self.shared.token.as_deref()
    }

    /// Returns the targets that it lets through.
    pub fn listed(&self) -> &[Target] {
        &self.shared.listed
    }

    /// Takes the attempts since the last time, and how many more there were.
    pub fn take_attempts(&mut self) -> (Vec<Attempt>, u64) {
        let mut known = self.shared.known();
        (std::mem::take(&mut known.attempts), std::mem::take(&mut known.more))
    }
}

fn unopened(error: io::Error) -> Error {
    let what = "the way out of the agent zone cannot be opened";
    Error::io(Kind::IsolationUnsatisfiable, what, error)
}

/// Returns the credentials of a request as `Proxy-Authorization` has them (RFC 7617).
pub fn authorization(token: &str) -> String {
    use base64::Engine;
    let pair = format!("loopexec:{token}");
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
}

impl Gate for Egress {
    fn begin(&mut self) -> Result<()> {
        match &self.own {
            Some((listener, _)) => self.open(listener.try_clone().map_err(unopened)?),
            None => Ok(()),
        }
    }

    fn open(&mut self, listener: std::net::TcpListener) -> Result<()> {
        listener.set_nonblocking(true).map_err(unopened)?;
        let listener = TcpListener::from_std(listener).map_err(unopened)?;
        self.serving = Some(tokio::spawn(serve(listener, Arc::clone(&self.shared))));
        Ok(())
    }

    fn close(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }
}

/// Takes connections until it is dropped, and drops them all with it.
async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            taken = listener.accept() => match taken {
                Ok((stream, _)) if open.len() < MOST_CONNECTIONS => {
                    open.spawn(attend(stream, Arc::clone(&shared)));
                }
                Ok(_) => {
                    let why = format!("more than {MOST_CONNECTIONS} connections at a time");
                    shared.note(Attempt { why, ..Attempt::default() });
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = open.join_next() => {}
        }
    }
}

/// Serves one connection.
async fn attend(mut inside: TcpStream, shared: Arc<Shared>) {
    let begun = Instant::now();
    let read = timeout(ANSWER, read_head(&mut inside)).await;
    let Ok(Ok((head, rest))) = read else {
        let why = "no request in time".to_owned();
        shared.note(Attempt { why, ..Attempt::default() });
        return;
    };
    let asked = asked(&head);
    if shared.token.as_deref().is_some_and(|token| !brings(&head, token)) {
        // Who asks is not known: what they ask for is nothing to record.
        let why = "a request without the token of the run".to_owned();
        shared.note(Attempt { why: why.clone(), ..Attempt::default() });
        refuse(&mut inside, 407, &why).await;
        return;
    }
    let decided = asked.as_ref().map_err(|refusal| (refusal.status, refusal.why.clone()));
    let decided = decided.and_then(|target| match shared.listed.contains(target) {
        true => Ok(target.clone()),
        false => Err((403, format!("{target} is not listed in isolation.egress"))),
    });
    let shown: String = match &asked {
        Ok(target) => target.to_string(),
        Err(refusal) => refusal.asked.clone(),
    };
    let target = match decided {
        Ok(target) => target,
        Err((status, why)) => {
            shared.note(Attempt { target: shown, why: why.clone(), ..Attempt::default() });
            refuse(&mut inside, status, &why).await;
            return;
        }
    };
    let place = shared.note(Attempt { target: shown, allowed: true, ..Attempt::default() });
    let outcome = tunnel(&mut inside, rest, &target, &shared, place).await;
    let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    shared.change(place, |attempt| {
        attempt.ms = ms;
        if let Err(Ended { why, refused }) = outcome {
            attempt.why = why;
            attempt.allowed = !refused;
        }
    });
}

/// Why a tunnel ended, or never came to be.
struct Ended {
    why: String,
    refused: bool,
}

impl Ended {
    fn refused(why: impl Into<String>) -> Self {
        Self { why: why.into(), refused: true }
    }

    fn early(why: impl Into<String>) -> Self {
        Self { why: why.into(), refused: false }
    }
}

async fn tunnel(
    inside: &mut TcpStream,
    rest: Vec<u8>,
    target: &Target,
    shared: &Shared,
    place: Option<usize>,
) -> std::result::Result<(), Ended> {
    let addresses = match pin(target, shared).await {
        Ok(addresses) => addresses,
        Err(ended) => {
            refuse(inside, if ended.refused { 403 } else { 502 }, &ended.why).await;
            return Err(ended);
        }
    };
    let Some((mut outside, address)) = dial(target, &addresses).await else {
        let why = format!("no address of {target} answers");
        refuse(inside, 502, &why).await;
        return Err(Ended::early(why));
    };
    shared.change(place, |attempt| attempt.address = address.to_string());
    let answer = b"HTTP/1.1 200 Connection established\r\n\r\n";
    inside.write_all(answer).await.map_err(|e| Ended::early(e.to_string()))?;
    let mut sent = rest;
    // Who may name a private address may also speak to it without TLS.
    if public::is_public(address.ip()) {
        let greeting = timeout(ANSWER, hello::read_server_name(inside, &mut sent)).await;
        match greeting {
            Err(_) => return Err(Ended::refused("no TLS greeting in time")),
            Ok(Err(why)) => return Err(Ended::refused(why)),
            Ok(Ok(None)) if target.host.parse::<IpAddr>().is_ok() => {}
            Ok(Ok(Some(name))) if name.eq_ignore_ascii_case(&target.host) => {}
            Ok(Ok(name)) => {
                let name = name.unwrap_or_else(|| "no host".to_owned());
                return Err(Ended::refused(format!("the TLS greeting names {name}")));
            }
        }
    }
    let early = |e: io::Error| Ended::early(e.to_string());
    outside.write_all(&sent).await.map_err(early)?;
    // Kept as they go: who is ended with a connection open has sent no less.
    let begun = Instant::now();
    let count = |counted: [u64; 2]| {
        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        shared.change(place, |attempt| {
            [attempt.up, attempt.down] = counted;
            attempt.ms = ms;
        });
    };
    let mut counted = [sent.len() as u64, 0];
    count(counted);
    relay(inside, &mut outside, &mut counted, count).await.map_err(Ended::early)
}

/// Moves bytes both ways until one side is done, or for too long nothing moved, or too much did.
async fn relay(
    inside: &mut TcpStream,
    outside: &mut TcpStream,
    counted: &mut [u64; 2],
    count: impl Fn([u64; 2]),
) -> std::result::Result<(), String> {
    let (mut from_inside, mut to_inside) = inside.split();
    let (mut from_outside, mut to_outside) = outside.split();
    let mut buffers = [vec![0; 16 << 10], vec![0; 16 << 10]];
    let [up, down] = &mut buffers;
    let mut ended = [false; 2];
    while ended != [true; 2] {
        count(*counted);
        if counted.iter().any(|bytes| *bytes > MOST_BYTES) {
            return Err("more bytes than one connection may carry".to_owned());
        }
        let told = |e: io::Error| e.to_string();
        tokio::select! {
            read = from_inside.read(up), if !ended[0] => match read.map_err(told)? {
                0 => { ended[0] = true; let _ = to_outside.shutdown().await; }
                bytes => {
                    counted[0] += bytes as u64;
                    // What is on its way may arrive.
                    count(*counted);
                    to_outside.write_all(&up[..bytes]).await.map_err(told)?;
                }
            },
            read = from_outside.read(down), if !ended[1] => match read.map_err(told)? {
                0 => { ended[1] = true; let _ = to_inside.shutdown().await; }
                bytes => {
                    to_inside.write_all(&down[..bytes]).await.map_err(told)?;
                    counted[1] += bytes as u64;
                }
            },
            () = tokio::time::sleep(IDLE) => return Err("nothing moved for too long".to_owned()),
        }
    }
    Ok(())
}

/// Resolves a target once and for the whole run, and refuses what leads into a private network unasked.
async fn pin(target: &Target, shared: &Shared) -> std::result::Result<Vec<IpAddr>, Ended> {
    if let Some(known) = shared.known().pinned.get(target) {
        return Ok(known.clone());
    }
    let asked = timeout(ANSWER, tokio::net::lookup_host((target.host.as_str(), target.port))).await;
    let found: Vec<IpAddr> = match asked {
        Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
        Ok(Err(error)) => {
            return Err(Ended::early(format!("{} has no address: {error}", target.host)));
        }
        Err(_) => return Err(Ended::early(format!("{} was not resolved in time", target.host))),
    };
    let listed = |ip: &IpAddr| {
        target.is_local_name()
            || shared
                .listed
                .iter()
                .any(|other| other.host == ip.to_string() && other.port == target.port)
    };
    if let Some(private) = found.iter().find(|ip| !public::is_public(**ip) && !listed(ip)) {
        return Err(Ended::refused(format!(
            "{} leads to {private}, which is no public address; list {} itself to allow it",
            target.host,
            Target { host: private.to_string(), port: target.port },
        )));
    }
    shared.known().pinned.insert(target.clone(), found.clone());
    Ok(found)
}

async fn dial(target: &Target, addresses: &[IpAddr]) -> Option<(TcpStream, SocketAddr)> {
    for ip in addresses {
        let address = SocketAddr::new(*ip, target.port);
        if let Ok(Ok(stream)) = timeout(ANSWER, TcpStream::connect(address)).await {
            let _ = stream.set_nodelay(true);
            return Some((stream, address));
        }
    }
    None
}

/// Reads to the empty line that ends a request's head; also returns what came behind it.
async fn read_head(from: &mut TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut head = Vec::new();
    loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = head.split_off(end + 4);
            return Ok((head, rest));
        }
        if head.len() > LONGEST_HEAD || from.read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Why a request is refused unseen.
struct Refusal {
    asked: String,
    status: u16,
    why: String,
}

/// Reads what a request asks for.
fn asked(head: &[u8]) -> std::result::Result<Target, Refusal> {
    let text = String::from_utf8_lossy(head);
    let line = text.lines().next().unwrap_or_default();
    let shown: String = line.chars().filter(|c| !c.is_control()).take(300).collect();
    let refusal = |status, why: &str| Refusal { asked: shown.clone(), status, why: why.to_owned() };
    let mut words = line.split(' ');
    if words.next() != Some("CONNECT") {
        return Err(refusal(405, "only CONNECT is spoken here; use https"));
    }
    let target = words.next().unwrap_or_default();
    target.parse().map_err(|why: String| refusal(400, &why))
}

/// Says whether a request brings the token.
fn brings(head: &[u8], token: &str) -> bool {
    let (head, wanted) = (String::from_utf8_lossy(head), authorization(token));
    let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.any(|(name, value)| {
        name.trim().eq_ignore_ascii_case("proxy-authorization") && value.trim() == wanted
    })
}

async fn refuse(inside: &mut TcpStream, status: u16, why: &str) {
    let reason = match status {
        400 => "Bad Request",
        403 => "Forbidden",
        405 => "Method Not Allowed",
        407 => "Proxy Authentication Required",
        _ => "Bad Gateway",
    };
    let body = format!("loopexec: {why}\n");
    // A client that sends its name and password only when it is asked for them.
    let ask = match status {
        407 => "Proxy-Authenticate: Basic realm=\"loopexec\"\r\n",
        _ => "",
    };
    let answer = format!(
        "HTTP/1.1 {status} {reason}\r\n{ask}Content-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = timeout(ANSWER, inside.write_all(answer.as_bytes())).await;
    let _ = inside.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_out_is_counted_though_the_connection_is_cut() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (attempts, got) = runtime.block_on(async {
            let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let target =
                Target { host: "127.0.0.1".to_owned(), port: service.local_addr().unwrap().port() };
            let mut egress = Egress::new(vec![target.clone()]);
            let gate = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let at = gate.local_addr().unwrap();
            egress.open(gate).unwrap();
            let mut inside = TcpStream::connect(at).await.unwrap();
            let head = format!("CONNECT {target} HTTP/1.1\r\n\r\n");
            inside.write_all(head.as_bytes()).await.unwrap();
            let (mut outside, _) = service.accept().await.unwrap();
            let mut answer = [0; 39];
            inside.read_exact(&mut answer).await.unwrap();
            inside.write_all(&[7; 1000]).await.unwrap();
            let mut got = [0; 1000];
            outside.read_exact(&mut got).await.unwrap();
            // The command ends with its connection open.
            egress.close();
            (egress.take_attempts().0, got.len() as u64)
        });
        assert_eq!(attempts.len(), 1);
        assert_eq!((attempts[0].up, attempts[0].down), (got, 0));
    }

    #[test]
    fn a_flood_of_refused_attempts_hides_none_that_got_out() {
        let mut egress = Egress::new(Vec::new());
        let attempt = |target: String, allowed| Attempt { target, allowed, ..Attempt::default() };
        for at in 0..MOST_ATTEMPTS + 5 {
            egress.shared.note(attempt(format!("x{at}.example:1"), false));
        }
        assert!(egress.shared.note(attempt("a.example:443".into(), true)).is_some());
        let (attempts, more) = egress.take_attempts();
        assert_eq!((attempts.len(), more), (MOST_ATTEMPTS + 1, 5));
        assert!(attempts.last().is_some_and(|last| last.allowed));
    }
}
