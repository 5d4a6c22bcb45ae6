//! Probes against real servers on the loopback interface.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use guideway_control::config::{Encapsulation, Probe};
use guideway_control::health::probe::{Answers, Driver, Options};
use guideway_control::health::{
    Board, Check, Fault, LegResult, Round, Stage, Thresholds, Times, Verdict, Wanted, Way, Who,
};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

/// Long enough for a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(20);

/// An answer may take so long, and so long it is until the next is asked for.
fn within(time: Duration) -> Times {
    Times { interval: time, recheck: time, timeout: time }
}

fn check(probe: Probe, port: u16) -> Check {
    Check {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: Some(port),
        probe: probe.into(),
        ca_file: None,
        ways: [Way::Direct].into(),
        times: within(PATIENCE),
    }
}

fn http(path: &str, body: Option<&str>) -> Probe {
    let (path, body) = (path.to_owned(), body.map(str::to_owned));
    Probe::Http { tls: false, host: None, path, status: vec![200], body }
}

fn https(host: Option<&str>) -> Probe {
    let host = host.map(str::to_owned);
    Probe::Http { tls: true, host, path: "/ready".into(), status: vec![200], body: None }
}

fn udp(send: &str, expect: Option<&str>) -> Probe {
    Probe::Udp { send: send.into(), expect: expect.map(str::to_owned) }
}

fn exec(command: &[&str]) -> Probe {
    Probe::Exec { command: command.iter().map(|&word| word.to_owned()).collect() }
}

fn wanted(backend: &str, check: Check) -> Wanted {
    Wanted {
        who: Who { service: "web".into(), backend: backend.into() },
        check: Arc::new(check),
        thresholds: Thresholds { rise: 2, fall: 2 },
        slow_start: Duration::ZERO,
    }
}

/// The first rounds of some checks.
fn rounds(checks: impl IntoIterator<Item = Check>) -> Vec<Round> {
    let (now, mut board) = (Instant::now(), Board::new(1));
    board.follow((0..).zip(checks).map(|(n, check)| wanted(&format!("be{n}"), check)), now);
    board.advance(now + Duration::from_secs(1)).rounds
}

fn driver() -> (Driver, Answers) {
    Driver::new(Options::default()).unwrap()
}

async fn ask(check: Check) -> LegResult {
    let (mut driver, mut answers) = driver();
    driver.start(rounds([check]).pop().unwrap());
    answers.next().await.unwrap().results.pop().unwrap()
}

async fn fault(check: Check) -> Fault {
    ask(check).await.unwrap_err()
}

/// Serves each connection by `serve`, and tells its port.
async fn server<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> u16
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    port
}

/// Reads a request, and answers by its path.
async fn web(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => return,
        }
    }
    let request = String::from_utf8(request).unwrap();
    let answer = match request.split(' ').nth(1) {
        Some("/ready") => "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nready\n",
        Some("/moved") => "HTTP/1.1 302 Found\r\nLocation: /ready\r\nContent-Length: 0\r\n\r\n",
        Some("/stall") => "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nrea",
        Some("/cut") => "HTTP/1.1 200",
        _ => "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
    };
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    if request.starts_with("GET /stall ") {
        std::future::pending::<()>().await;
    }
    let _ = stream.shutdown().await;
}

/// Nobody listens there: the port was free a moment ago.
async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn a_connection_that_opens_passes_and_one_that_is_refused_does_not() {
    let port = server(|stream| async { drop(stream) }).await;
    let passed = ask(check(Probe::Tcp, port)).await.unwrap();
    assert!(passed.took < PATIENCE);
    assert_eq!(fault(check(Probe::Tcp, free_port().await)).await, Fault::Refused);
}

#[tokio::test]
async fn a_connection_that_opens_passes_although_the_backend_resets_it_at_once() {
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            socket2::SockRef::from(&stream.unwrap()).set_linger(Some(Duration::ZERO)).unwrap();
        }
    });
    let (mut driver, mut answers) = driver();
    // Of so many, the reset of some is there before anybody looks.
    let address = |host| IpAddr::from([127, 0, 0, host]);
    let checks = (1..=250).map(|host| Check { address: address(host), ..check(Probe::Tcp, port) });
    rounds(checks).into_iter().for_each(|round| driver.start(round));
    for _ in 1..=250 {
        let results = answers.next().await.unwrap().results;
        assert!(results[0].is_ok(), "{results:?}");
    }
}

#[tokio::test]
async fn a_connection_is_reset_before_the_backends_program_hears_of_it_however_often_that_is() {
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (mut driver, mut answers) = driver();
    // Each on its own address of this machine, and more than begin at once.
    let checks = (1..=100).map(|host| {
        let address = IpAddr::from([127, 0, 0, host]);
        Check { address, ..check(Probe::Tcp, port) }
    });
    let (now, mut board) = (Instant::now(), Board::new(1));
    board.follow((0..).zip(checks).map(|(n, check)| wanted(&format!("be{n}"), check)), now);
    for round in 1..=3 {
        let rounds = board.advance(now + 2 * round * PATIENCE).rounds;
        assert_eq!(rounds.len(), 100);
        rounds.into_iter().for_each(|round| driver.start(round));
        for _ in 0..100 {
            let answer = answers.next().await.unwrap();
            assert!(answer.results[0].is_ok(), "{answer:?}");
            board.answer(&answer, now + 2 * round * PATIENCE);
        }
    }
    // The kernel holds an acknowledgement back for 200 ms, and then a connection opens: no more than one batch that a busy
    // machine let wait so long.
    let heard_of = std::iter::from_fn(|| listener.accept().ok()).count();
    assert!(heard_of <= 16, "{heard_of} of 300");
    assert_eq!(driver.under_way(), 0);
    // A socket that was used serves for one that is refused as well, and then for none.
    let refused = free_port().await;
    for (port, passes) in [(port, true), (refused, false), (port, true)] {
        let round = rounds([check(Probe::Tcp, port)]).pop().unwrap();
        driver.start(round);
        assert_eq!(answers.next().await.unwrap().results[0].is_ok(), passes);
    }
}

/// Connections have a thread of their own, whose time is the real one.
#[tokio::test]
async fn a_connection_that_nobody_takes_fails_after_its_time_out_and_not_before() {
    // A listener that accepts nobody any more: the kernel drops what comes.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let full_at = full.local_addr().unwrap().as_socket().unwrap();
    let mut waiting = Vec::new();
    while let Ok(connected) =
        tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(full_at)).await
    {
        waiting.push(connected.unwrap());
    }
    let (limit, began) = (Duration::from_millis(100), Instant::now());
    let fault = fault(Check { times: within(limit), ..check(Probe::Tcp, full_at.port()) }).await;
    assert_eq!(fault, Fault::TimedOut { limit, stage: Stage::Connect });
    assert!(began.elapsed() >= limit);
}

/// Virtual time: it passes only when nothing else can happen.
#[tokio::test(start_paused = true)]
async fn a_time_out_is_exact_and_says_where() {
    let silent = server(|stream| async {
        let _held = stream;
        std::future::pending::<()>().await;
    });
    let (silent, web) = (silent.await, server(web).await);
    let deaf = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let deaf = (deaf.local_addr().unwrap().port(), deaf);
    for (probe, port, stage) in [
        (https(None), silent, Stage::Handshake),
        (http("/", None), silent, Stage::Head),
        (http("/stall", Some("ready")), web, Stage::Body),
        (udp("ping", None), deaf.0, Stage::Datagram),
    ] {
        let limit = Duration::from_millis(700);
        let began = tokio::time::Instant::now();
        let fault = fault(Check { times: within(limit), ..check(probe, port) }).await;
        assert_eq!(fault, Fault::TimedOut { limit, stage });
        // The timer counts in milliseconds.
        let took = began.elapsed();
        assert!(took >= limit && took <= limit + Duration::from_millis(1), "{stage:?} {took:?}");
    }
}

#[tokio::test]
async fn http_answers_are_judged_by_status_and_body() {
    let port = server(web).await;
    assert!(ask(check(http("/ready", None), port)).await.is_ok());
    assert!(ask(check(http("/ready", Some("ready")), port)).await.is_ok());
    // The status decides without the body.
    assert!(ask(check(http("/stall", None), port)).await.is_ok());
    let wrong = |got| Fault::Status { got, fine: vec![200] };
    assert_eq!(fault(check(http("/", None), port)).await, wrong(503));
    assert_eq!(fault(check(http("/moved", None), port)).await, wrong(302));
    let body = fault(check(http("/ready", Some("steady")), port)).await;
    assert_eq!(body.to_string(), "the body's first 6 bytes do not hold \"steady\"");
}

#[tokio::test]
async fn a_server_that_hangs_up_is_told_from_one_that_is_silent() {
    let port = server(web).await;
    assert_eq!(fault(check(http("/cut", None), port)).await, Fault::Closed { stage: Stage::Head });
    let hangs_up = server(|mut stream: TcpStream| async move {
        let mut first = [0];
        let _ = stream.read(&mut first).await;
        // With bytes unread, the kernel resets.
    });
    assert!(matches!(fault(check(http("/", None), hangs_up.await)).await, Fault::Closed { .. }));
    let half_open = server(|mut stream: TcpStream| async move {
        stream.shutdown().await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let closed = Fault::Closed { stage: Stage::Head };
    assert_eq!(fault(check(http("/", None), half_open.await)).await, closed);
}

/// A certificate for a name, and a server that has it.
async fn tls_server(name: &str, directory: &Path) -> (u16, PathBuf) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let file = directory.join(format!("{name}.pem"));
    std::fs::write(&file, cert.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let port = server(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                web(stream).await;
            }
        }
    });
    (port.await, file)
}

/// A directory of its own, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("guideway-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn https_takes_any_certificate_unless_the_check_names_those_that_it_trusts() {
    let directory = Directory::new("https");
    let (port, file) = tls_server("web.example", &directory.0).await;
    let (_, other) = tls_server("other.example", &directory.0).await;
    let trusting = |file: &Path, host| Check { ca_file: Some(file.into()), ..check(https(host), port) };
    assert!(ask(check(https(None), port)).await.is_ok());
    assert!(ask(trusting(&file, Some("web.example"))).await.is_ok());
    assert!(ask(trusting(&file, Some("web.example:8443"))).await.is_ok());
    for wrong in
        [trusting(&file, Some("else.example")), trusting(&file, None), trusting(&other, Some("web.example"))]
    {
        let fault = fault(wrong).await;
        assert!(matches!(fault, Fault::Tls { .. }), "{fault}");
    }
    // The file is read anew when it changes.
    std::fs::copy(&file, &other).unwrap();
    assert!(ask(trusting(&other, Some("web.example"))).await.is_ok());
    let missing = fault(trusting(&directory.0.join("missing.pem"), None)).await;
    assert!(missing.is_local() && missing.to_string().contains("missing.pem"), "{missing}");
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_fails_https() {
    let port = server(|mut stream: TcpStream| async move {
        let _ = stream.read(&mut [0; 1_024]).await;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let fault = fault(check(https(None), port.await)).await;
    assert!(matches!(fault, Fault::Tls { .. }), "{fault}");
}

#[tokio::test]
async fn a_datagram_is_judged_by_the_answer() {
    let echo = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = echo.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut buffer = [0; 1_500];
        while let Ok((length, from)) = echo.recv_from(&mut buffer).await {
            let _ = echo.send_to(&buffer[..length], from).await;
        }
    });
    assert!(ask(check(udp("ping pong", Some("ping")), port)).await.is_ok());
    assert!(ask(check(udp("anything", None), port)).await.is_ok());
    for (send, expect) in [("ping", "pong"), ("pin", "ping")] {
        let wrong = fault(check(udp(send, Some(expect)), port)).await;
        assert_eq!(wrong, Fault::Datagram { wanted: expect.into() });
    }
    // An ICMP error says that nobody is there.
    let closed = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    assert_eq!(fault(check(udp("ping", None), closed)).await, Fault::Refused);
}

#[tokio::test]
async fn a_program_is_judged_by_its_end() {
    let environment = "test \"$GUIDEWAY_ADDRESS:$GUIDEWAY_PORT\" = 127.0.0.1:81";
    assert!(ask(check(exec(&["/bin/sh", "-c", environment]), 81)).await.is_ok());
    let failed = fault(check(exec(&["/bin/sh", "-c", "echo no disk >&2; echo more >&2; exit 3"]), 81)).await;
    assert_eq!(failed.to_string(), "the program ended with 3: no disk");
    let talkative = "head -c 1000000 /dev/zero >&2; exit 4";
    let talkative = fault(check(exec(&["/bin/sh", "-c", talkative]), 81)).await;
    assert!(talkative.to_string().starts_with("the program ended with 4"), "{talkative}");
    let killed = fault(check(exec(&["/bin/sh", "-c", "kill -9 $$"]), 81)).await;
    assert_eq!(killed.to_string(), "the program was ended by signal 9");
    let missing = fault(check(exec(&["/nowhere/check"]), 81)).await;
    assert!(missing.is_local(), "{missing}");
    // One that leaves another behind is not awaited.
    assert!(
        ask(check(exec(&["/bin/sh", "-c", "sleep 600 & echo $! > /dev/null; kill $!"]), 81)).await.is_ok()
    );
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_killed_with_those_that_it_started() {
    let directory = Directory::new("exec");
    let file = directory.0.join("pid");
    let script = format!("sleep 600 & echo $! > {}; wait", file.display());
    // Until the script has come so far, on a machine however busy.
    let started = loop {
        let limit = Duration::from_millis(500);
        let fault =
            fault(Check { times: within(limit), ..check(exec(&["/bin/sh", "-c", &script]), 81) }).await;
        assert_eq!(fault, Fault::TimedOut { limit, stage: Stage::Exit });
        if let Some(pid) =
            std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u32>().ok())
        {
            break pid;
        }
    };
    // A process that is killed is gone, or a zombie that its new parent has not reaped yet.
    let lives = || {
        let stat = std::fs::read_to_string(format!("/proc/{started}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
    };
    while lives() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn dropping_the_driver_ends_what_is_under_way() {
    let (ended, mut ends) = mpsc::channel(1);
    let (begun, mut begins) = mpsc::channel(1);
    let port = server(move |mut stream: TcpStream| {
        let (begun, ended) = (begun.clone(), ended.clone());
        async move {
            begun.send(()).await.unwrap();
            // Until the other side is gone.
            let _ = stream.read_to_end(&mut Vec::new()).await;
            ended.send(()).await.unwrap();
        }
    });
    let (mut driver, mut answers) = driver();
    driver.start(rounds([check(http("/", None), port.await)]).pop().unwrap());
    begins.recv().await.unwrap();
    assert_eq!(driver.under_way(), 1);
    drop(driver);
    ends.recv().await.unwrap();
    assert!(answers.next().await.is_none());
}

#[tokio::test]
async fn more_than_may_be_asked_at_once_is_this_machines_fault() {
    let port = server(|stream| async {
        let _held = stream;
        std::future::pending::<()>().await;
    });
    let port = port.await;
    let (mut driver, mut answers) = Driver::new(Options { most_at_once: 2, ..Options::default() }).unwrap();
    let three = ["/a", "/b", "/c"].map(|path| check(http(path, None), port));
    rounds(three).into_iter().for_each(|round| driver.start(round));
    let answer = answers.next().await.unwrap();
    assert_eq!(*answer.results, [Err(Fault::Local { said: "2 are being asked already".into() })]);
    assert_eq!(driver.under_way(), 2);
}

/// What a daemon's loop does, by the real clock.
#[tokio::test]
async fn a_board_and_a_driver_find_out_when_a_server_comes_and_goes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let who = Who { service: "web".into(), backend: "be1".into() };
    let times = within(Duration::from_millis(100));
    let check = Check { times, ..check(Probe::Tcp, address.port()) };
    let (mut board, (mut driver, mut answers)) = (Board::new(1), driver());
    board.follow([wanted("be1", check)], Instant::now());
    let mut listener = Some(listener);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let due = board.next_due().unwrap();
        let changes = tokio::select! {
            Some(answer) = answers.next() => board.answer(&answer, Instant::now()),
            () = tokio::time::sleep_until(due.into()) => {
                let advanced = board.advance(Instant::now());
                advanced.rounds.into_iter().for_each(|round| driver.start(round));
                advanced.changes
            }
        };
        for change in changes {
            seen.push(change.to);
            listener = match change.to {
                Verdict::Up => None,
                _ => Some(TcpListener::bind(address).await.unwrap()),
            };
        }
    }
    drop(listener);
    assert_eq!(seen, [Verdict::Up, Verdict::Down, Verdict::Up]);
    assert_eq!(board.status(&who, Instant::now()).unwrap().because.as_deref(), Some("direct probe ok"));
}

#[tokio::test]
async fn a_tunnel_probe_is_marked_or_says_why_it_cannot_be() {
    let port = server(|stream| async { drop(stream) }).await;
    let vip = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let way = Way::Tunnel { vip, encapsulation: Encapsulation::Ipip };
    match ask(Check { ways: [way].into(), ..check(Probe::Tcp, port) }).await {
        Ok(_) => {}
        Err(fault) => assert!(fault.is_local() && fault.to_string().contains("CAP_NET_ADMIN"), "{fault}"),
    }
}
