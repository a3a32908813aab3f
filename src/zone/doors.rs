//! Doors of the exec zone: ports of its loopback behind which are the same ports of this machine's.
//!
//! They are made for services that a loop declares (`check.services`); what goes through is nobody's business
//! but the check's.

use crate::error::{Error, Kind, Result};
use crate::process::Gate;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

/// Connections of one door at a time.
const MOST_CONNECTIONS: usize = 256;
/// Time for a service to answer.
const ANSWER: Duration = Duration::from_secs(15);

/// The doors of one command after the other.
#[derive(Debug)]
pub struct Doors {
    ports: Vec<u16>,
    opened: usize,
    serving: Vec<JoinHandle<()>>,
}

impl Doors {
    /// Makes doors to these ports.
    pub fn new(ports: Vec<u16>) -> Self {
        Self { ports, opened: 0, serving: Vec::new() }
    }

    /// Returns their ports.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }
}

impl Gate for Doors {
    fn open(&mut self, listener: std::net::TcpListener) -> Result<()> {
        let failed = |e| {
            Error::io(Kind::IsolationUnsatisfiable, "a door of the exec zone cannot be opened", e)
        };
        let Some(port) = self.ports.get(self.opened).copied() else {
            return Err(Error::new(Kind::Internal, "a door leads nowhere"));
        };
        self.opened += 1;
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        self.serving.push(tokio::spawn(serve(listener, port)));
        Ok(())
    }

    fn close(&mut self) {
        self.opened = 0;
        self.serving.drain(..).for_each(|serving| serving.abort());
    }
}

/// Takes connections until it is dropped, and drops them all with it.
async fn serve(listener: TcpListener, port: u16) {
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            taken = listener.accept() => match taken {
                Ok((inside, _)) if running.len() < MOST_CONNECTIONS => {
                    running.spawn(forward(inside, port));
                }
                Ok(_) => {}
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = running.join_next() => {}
        }
    }
}

async fn forward(mut inside: TcpStream, port: u16) {
    // Where nobody answers the connection ends, as it would without a door.
    if let Ok(mut outside) = dial(port).await {
        let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
    }
}

/// Connects to a port of this machine, on whichever loopback it answers.
async fn dial(port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::ConnectionRefused);
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        match timeout(ANSWER, TcpStream::connect(SocketAddr::new(address, port))).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}
