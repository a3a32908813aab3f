//! The first words of a TLS connection: which host they name.

use rustls::server::Acceptor;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Bytes of a greeting that are read.
const LONGEST: usize = 64 << 10;

/// Reads a TLS greeting and returns the host it names; all that was read is in `bytes`, to be passed on.
///
/// The error says in what way it is no such greeting.
pub(super) async fn read_server_name(
    from: &mut TcpStream,
    bytes: &mut Vec<u8>,
) -> Result<Option<String>, String> {
    loop {
        if let Some(name) = server_name(bytes)? {
            return Ok(name);
        }
        if bytes.len() > LONGEST {
            return Err("its TLS greeting has no end".to_owned());
        }
        match from.read_buf(bytes).await {
            Ok(0) => return Err("it ended before a TLS greeting".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Returns what a whole greeting names; nothing where more bytes are needed.
fn server_name(bytes: &[u8]) -> Result<Option<Option<String>>, String> {
    // Type 22 is a handshake (RFC 8446, section 5.1).
    if bytes.first().is_some_and(|first| *first != 22) {
        return Err("it is no TLS connection".to_owned());
    }
    let mut acceptor = Acceptor::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        acceptor
            .read_tls(&mut rest)
            .map_err(|e| format!("its TLS greeting cannot be read: {e}"))?;
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                return Ok(Some(accepted.client_hello().server_name().map(str::to_owned)));
            }
            Ok(None) => {}
            Err((error, _)) => return Err(format!("its TLS greeting cannot be read: {error}")),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A greeting of TLS 1.2 with one cipher and, if there is one, a name (RFC 8446 4.1.2, RFC 6066 3).
    fn greeting(name: Option<&str>) -> Vec<u8> {
        fn sized(width: usize, body: &[u8]) -> Vec<u8> {
            let length = body.len().to_be_bytes();
            [&length[length.len() - width..], body].concat()
        }
        let mut extensions = Vec::new();
        if let Some(name) = name {
            let entry = [vec![0], sized(2, name.as_bytes())].concat();
            extensions.extend([vec![0, 0], sized(2, &sized(2, &entry))].concat());
        }
        extensions.extend([vec![0, 10], sized(2, &sized(2, &[0, 29]))].concat());
        extensions.extend([vec![0, 13], sized(2, &sized(2, &[4, 3]))].concat());
        let hello = [
            vec![3, 3],
            vec![7; 32],
            sized(1, &[]),
            sized(2, &[0xc0, 0x2f]),
            sized(1, &[0]),
            sized(2, &extensions),
        ]
        .concat();
        let message = [vec![1], sized(3, &hello)].concat();
        [vec![22, 3, 1], sized(2, &message)].concat()
    }

    #[test]
    fn a_greeting_tells_its_host_wherever_it_is_cut() {
        let whole = greeting(Some("api.example.com"));
        for cut in 0..whole.len() {
            assert_eq!(server_name(&whole[..cut]).unwrap(), None, "{cut}");
        }
        assert_eq!(server_name(&whole).unwrap(), Some(Some("api.example.com".to_owned())));
        assert_eq!(server_name(&greeting(None)).unwrap(), Some(None));
        assert!(server_name(b"GET / HTTP/1.1\r\n").is_err());
        assert!(server_name(&[22, 3, 1, 0xff, 0xff]).is_err());
    }
}
