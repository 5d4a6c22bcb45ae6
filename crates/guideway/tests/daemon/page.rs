//! The console and the laboratory, served beside the API.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;

use guideway_page::{CONSOLE, LAB};
use guideway_testbed::process::Process;
use guideway_testbed::{privilege, wait};

use crate::api::command;
use crate::bed::{Bed, Engine, LONG, backends, config, end};
use crate::request::{Reply, ask, ask_by};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Where the daemon says that its API listens.
fn address(daemon: &Process) -> SocketAddr {
    let find = || {
        let [_, log] = daemon.printed();
        let found = log.split("the API listens at ").nth(1).and_then(|rest| rest.split_whitespace().next());
        found.and_then(|address| address.parse().ok()).ok_or(log)
    };
    wait::until(LONG, "an address", find).unwrap()
}

#[test]
fn the_pages_are_served_to_everybody_and_nothing_else_is() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("page", Engine::Soft);
    bed.configure(&config("1s", &backends(3, |_| "")));
    let token = bed.path("token");
    fs::write(&token, TOKEN).unwrap();
    let name = token.display().to_string();
    let tcp = ["--listen", "127.0.0.1:0", "--token-file", &name];
    let refused = bed.start_with(&tcp).finish(LONG).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains(&format!("chmod 600 {name}")), "{}", refused.stderr);
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let daemon = bed.run_with(&tcp);
    let address = address(&daemon);
    let by_tcp = |method: &str, path: &str, headers: &[(&str, &str)]| -> Reply {
        let connect = || TcpStream::connect(address).unwrap();
        let stream = bed.network.balancers[0].namespace.run(connect).unwrap();
        ask_by(stream, method, path, headers, "")
    };
    let socket = bed.path("api.sock");
    for (page, file, kind) in [
        (&CONSOLE, "", "text/html; charset=utf-8"),
        (&CONSOLE, "js/main.js", "text/javascript; charset=utf-8"),
        (&LAB, "", "text/html; charset=utf-8"),
        (&LAB, "guideway.wasm", "application/wasm"),
        (&LAB, "js/main.js", "text/javascript; charset=utf-8"),
    ] {
        let path = &format!("/{}/{file}", page.name);
        let asset = page.find(file).unwrap();
        for reply in [by_tcp("GET", path, &[]), ask(&socket, "GET", path, &[], "")] {
            assert_eq!((reply.status, &reply.bytes[..]), (200, asset.bytes), "{path}");
            for (name, value) in page.headers().into_iter().chain([("content-type", kind)]) {
                let line = format!("\r\n{name}: {value}").to_ascii_lowercase();
                assert!(reply.head.contains(&line), "{path}: no {line} in {}", reply.head);
            }
        }
        let again = by_tcp("GET", path, &[("If-None-Match", &asset.etag())]);
        assert_eq!((again.status, again.bytes.len()), (304, 0));
        assert_eq!(by_tcp("HEAD", path, &[]).bytes.len(), 0);
    }
    for (from, to) in [("/", "/console/"), ("/console", "/console/"), ("/lab", "/lab/")] {
        let reply = by_tcp("GET", from, &[]);
        assert_eq!(reply.status, 307, "{}", reply.head);
        assert!(reply.head.contains(&format!("location: {to}\r\n")), "{}", reply.head);
    }
    for (method, path, status) in [
        ("GET", "/v1/status", 401),
        ("GET", "/v1/services", 401),
        ("GET", "/v1/events", 401),
        ("GET", "/metrics", 401),
        ("GET", "/openapi.json", 401),
        ("POST", "/livez", 405),
        ("GET", "/lab/../v1/status", 404),
        ("GET", "/lab/%2e%2e/v1/status", 404),
        ("GET", "/lab//v1/status", 404),
        ("GET", "/lab/guideway.wasm.json", 404),
        ("GET", "/console/../v1/status", 404),
        ("GET", "/console/v1/status", 404),
        ("GET", "//lab/", 401),
        ("POST", "/", 405),
        ("POST", "/console/", 405),
        ("POST", "/lab/", 405),
        ("PUT", "/lab/index.html", 405),
        ("POST", "/v1/reload", 401),
        ("GET", "/nothing", 401),
    ] {
        let reply = by_tcp(method, path, &[]);
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.head);
        assert!(reply.head.contains("application/problem+json"), "{}", reply.head);
    }
    // A load balancer in front, or an orchestrator, has no token.
    assert_eq!((by_tcp("GET", "/livez", &[]).status, by_tcp("GET", "/readyz", &[]).status), (200, 200));
    let with_token = by_tcp("GET", "/v1/status", &[("Authorization", &format!("Bearer {TOKEN}"))]);
    let status = command(&bed, "status");
    for (field, path) in [("page", "/lab/"), ("console", "/console/")] {
        assert_eq!(with_token.body[field], format!("http://{address}{path}"));
        assert!(status.stdout.contains(&format!("http://{address}{path}\n")), "{}", status.stdout);
    }
    assert!(end(daemon).status.success());
}
