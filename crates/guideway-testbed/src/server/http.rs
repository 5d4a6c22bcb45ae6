//! HTTP/1.1, as much of it as clients need here.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// The piece that a body is written in.
const PIECE: usize = 64 * 1024;

/// A handler for [`TcpServer`](crate::server::TcpServer) that speaks HTTP/1.1, several requests a connection:
///
/// * `GET /` is answered by the line `NAME CLIENT`: the server's name, and the client's address and port;
/// * `GET /bytes/N` by N bytes;
/// * `POST` and `PUT` by the line `NAME received N`, once the N bytes of the body are read.
///
/// Every answer has the name in its `Server` field.
pub fn http(name: &str) -> impl Fn(&TcpStream, SocketAddr) -> io::Result<()> + Send + Sync + 'static {
    let name = name.to_owned();
    move |stream, client| {
        let mut reader = BufReader::new(stream);
        let mut writer = stream;
        while let Some(request) = Request::read(&mut reader)? {
            request.answer(&name, client, &mut reader, &mut writer)?;
        }
        Ok(())
    }
}

struct Request {
    method: String,
    path: String,
    body_bytes: u64,
    waits_for_continue: bool,
}

impl Request {
    /// Reads a request up to its body; `None` when the client has closed.
    fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let mut word = || words.next().map(str::to_owned);
        let (Some(method), Some(path)) = (word(), word()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no request line"));
        };
        let mut request = Self { method, path, body_bytes: 0, waits_for_continue: false };
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            let Some((field, value)) = header.split_once(':') else { return Ok(Some(request)) };
            let value = value.trim();
            match field.to_ascii_lowercase().as_str() {
                "content-length" => request.body_bytes = value.parse().map_err(io::Error::other)?,
                "expect" => request.waits_for_continue = value.eq_ignore_ascii_case("100-continue"),
                _ => {}
            }
        }
    }

    fn answer(
        &self,
        name: &str,
        client: SocketAddr,
        reader: &mut impl Read,
        writer: &mut impl Write,
    ) -> io::Result<()> {
        if self.waits_for_continue {
            writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let received = io::copy(&mut reader.take(self.body_bytes), &mut io::sink())?;
        let line = match self.method.as_str() {
            "POST" | "PUT" => format!("{name} received {received}\n"),
            _ => format!("{name} {client}\n"),
        };
        match self.path.strip_prefix("/bytes/").map(str::parse::<u64>) {
            Some(Ok(bytes)) => {
                head(writer, name, "200 OK", bytes)?;
                let mut left = bytes;
                while left > 0 {
                    let piece = left.min(PIECE as u64);
                    writer.write_all(&[b'g'; PIECE][..piece as usize])?;
                    left -= piece;
                }
                Ok(())
            }
            Some(Err(_)) => head(writer, name, "400 Bad Request", 0),
            None => {
                head(writer, name, "200 OK", line.len() as u64)?;
                writer.write_all(line.as_bytes())
            }
        }
    }
}

fn head(writer: &mut impl Write, name: &str, status: &str, length: u64) -> io::Result<()> {
    write!(writer, "HTTP/1.1 {status}\r\nServer: {name}\r\nContent-Length: {length}\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_to(text: &str) -> String {
        let mut reader = text.as_bytes();
        let mut out = Vec::new();
        while let Some(request) = Request::read(&mut reader).unwrap() {
            request.answer("be1", "198.51.100.7:4000".parse().unwrap(), &mut reader, &mut out).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_client_is_told_who_it_is() {
        let answer = answer_to("GET / HTTP/1.1\r\nHost: web\r\n\r\n");
        assert_eq!(
            answer,
            "HTTP/1.1 200 OK\r\nServer: be1\r\nContent-Length: 22\r\n\r\nbe1 198.51.100.7:4000\n"
        );
    }

    #[test]
    fn bodies_are_read_and_written_whole() {
        let answer = answer_to(
            "POST / HTTP/1.1\r\ncontent-LENGTH: 5\r\nExpect: 100-continue\r\n\r\nhelloGET /bytes/3 HTTP/1.1\r\n\r\n",
        );
        let (posted, got) = ("be1 received 5\n", "ggg");
        assert_eq!(
            answer,
            format!(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nServer: be1\r\nContent-Length: 15\r\n\r\n{posted}\
                 HTTP/1.1 200 OK\r\nServer: be1\r\nContent-Length: 3\r\n\r\n{got}"
            )
        );
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(answer_to("GET /bytes/many HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400 "));
        assert!(Request::read(&mut "nonsense\r\n\r\n".as_bytes()).is_err());
    }
}
