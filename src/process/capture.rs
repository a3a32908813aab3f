//! Output in bounded memory: counted and hashed whole, kept at head and tail.

use super::job::{Observer, Stream};
use crate::domain::hex;
use sha2::{Digest, Sha256};
use std::io;
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, ChildStdout};

/// Bytes read at once: what a pipe holds.
const CHUNK: usize = 64 << 10;

/// What is known of one stream after its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// How many bytes came.
    pub bytes: u64,
    /// The sha256 of all of them, hexadecimal.
    pub sha256: String,
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last of the bytes that are not in `head`.
    pub tail: Vec<u8>,
    /// Whether the end of the stream was seen; a holder outside the tree can keep it open.
    pub ended: bool,
}

impl Captured {
    /// Returns how many bytes between head and tail are not kept.
    pub fn omitted(&self) -> u64 {
        self.bytes - self.head.len() as u64 - self.tail.len() as u64
    }

    /// Returns everything kept, head before tail.
    pub fn kept(&self) -> Vec<u8> {
        [self.head.as_slice(), self.tail.as_slice()].concat()
    }
}

/// A stream being captured.
#[derive(Debug)]
pub(super) struct Capture {
    keep: usize,
    bytes: u64,
    hash: Sha256,
    head: Vec<u8>,
    tail: Vec<u8>,
    ended: bool,
}

impl Capture {
    /// Starts with nothing, to keep so many bytes at each end.
    pub(super) fn new(keep: usize) -> Self {
        let (head, tail) = (Vec::new(), Vec::new());
        Self { keep, bytes: 0, hash: Sha256::new(), head, tail, ended: false }
    }

    /// Takes the next bytes; none means that the stream ended.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        if chunk.is_empty() {
            self.ended = true;
            return;
        }
        self.bytes += chunk.len() as u64;
        self.hash.update(chunk);
        let room = (self.keep - self.head.len()).min(chunk.len());
        let (first, rest) = chunk.split_at(room);
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.keep)..];
        // Cutting only when the buffer has doubled makes the moves linear in the output.
        if self.tail.len() + rest.len() > self.keep.saturating_mul(2) {
            self.cut_tail_for(rest.len());
        }
        self.tail.extend_from_slice(rest);
    }

    fn cut_tail_for(&mut self, coming: usize) {
        let stay = self.keep.saturating_sub(coming).min(self.tail.len());
        self.tail.drain(..self.tail.len() - stay);
    }

    /// Says whether the end was seen.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Closes the capture.
    pub(super) fn finish(mut self) -> Captured {
        self.cut_tail_for(0);
        Captured {
            bytes: self.bytes,
            sha256: hex::encode(&self.hash.finalize()),
            head: self.head,
            tail: self.tail,
            ended: self.ended,
        }
    }
}

/// Both outputs of a command being captured.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) out: ChildStdout,
    pub(super) out_buffer: Vec<u8>,
    pub(super) stdout: Capture,
    pub(super) err: ChildStderr,
    pub(super) err_buffer: Vec<u8>,
    pub(super) stderr: Capture,
}

impl Pipes {
    /// Starts with nothing read.
    pub(super) fn new(out: ChildStdout, err: ChildStderr, keep: usize) -> Self {
        let (out_buffer, err_buffer) = (vec![0; CHUNK], vec![0; CHUNK]);
        let (stdout, stderr) = (Capture::new(keep), Capture::new(keep));
        Self { out, out_buffer, stdout, err, err_buffer, stderr }
    }

    /// Takes what was just read into a stream's buffer; a stream that fails has ended.
    pub(super) fn take(
        &mut self,
        stream: Stream,
        read: io::Result<usize>,
        observer: &mut dyn Observer,
    ) {
        let (buffer, capture) = match stream {
            Stream::Stdout => (&self.out_buffer, &mut self.stdout),
            Stream::Stderr => (&self.err_buffer, &mut self.stderr),
        };
        let chunk = &buffer[..read.unwrap_or(0)];
        capture.push(chunk);
        if !chunk.is_empty() {
            observer.chunk(stream, chunk);
        }
    }

    /// Reads both to their ends.
    pub(super) async fn drain(&mut self, observer: &mut dyn Observer) {
        while !self.stdout.ended() || !self.stderr.ended() {
            tokio::select! {
                read = self.out.read(&mut self.out_buffer), if !self.stdout.ended() => {
                    self.take(Stream::Stdout, read, observer);
                }
                read = self.err.read(&mut self.err_buffer), if !self.stderr.ended() => {
                    self.take(Stream::Stderr, read, observer);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_are_the_ends_whatever_the_chunks() {
        let all: Vec<u8> = (0..1000u32).map(|n| (n % 251) as u8).collect();
        for keep in [0, 1, 7, 100, 499, 500, 501, 2000] {
            for size in [1, 3, 64, 333, 1000] {
                let mut capture = Capture::new(keep);
                all.chunks(size).for_each(|chunk| capture.push(chunk));
                capture.push(&[]);
                let captured = capture.finish();
                let head = &all[..keep.min(1000)];
                let tail = &all[head.len().max(1000usize.saturating_sub(keep))..];
                assert_eq!(captured.head, head, "{keep} {size}");
                assert_eq!(captured.tail, tail, "{keep} {size}");
                assert_eq!(captured.sha256, hex::sha256(&all));
                assert_eq!(captured.omitted(), (1000 - head.len() - tail.len()) as u64);
                assert!(captured.ended);
            }
        }
    }
}
