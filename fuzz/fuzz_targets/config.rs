//! Any text, as a configuration and as scripted events: no panic, every problem has a place in the text and can be drawn,
//! and what is accepted can be turned into desired state.
#![no_main]

use std::sync::LazyLock;

use guideway_control::config::{self, Config, Problems, Source, events};
use guideway_control::controller::from_config;
use libfuzzer_sys::fuzz_target;

const EXAMPLE: &str = include_str!("../../docs/guideway.example.toml");

const EVENTS: &str = r#"
[[event]]
at = "1.5s"
do = "add"
service = "web-quic"
backend = "be9"
address = "10.0.0.9"
server_id = "0009"

[[event]]
at = "2s"
do = "drain"
service = "web"
backend = "be1"
"#;

/// What people write, rightly or wrongly, where something else stood.
const TOKENS: &[&str] = &[
    "",
    "\n",
    " ",
    "=",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\"",
    "'",
    "#",
    ".",
    "-1",
    "0",
    "1",
    "6080",
    "65535",
    "65536",
    "65537",
    "18446744073709551616",
    "1e400",
    "nan",
    "true",
    "\"any\"",
    "[80, 443]",
    "\"2001:db8::1\"",
    "\"::ffff:10.0.0.1\"",
    "\"10.0.0.1\"",
    "\"0.0.0.0/0\"",
    "\"255.255.255.255\"",
    "\"9999999999h\"",
    "\"0.0000001s\"",
    "\"gue\"",
    "\"entropy\"",
    "\"udp\"",
    "[[service]]\n",
    "[[service.backend]]\n",
    "[service.quic]\n",
    "[defaults]\n",
    "weight = 0\n",
    "é",
    "\u{feff}",
    "\u{0}",
    "server_id = 1\n",
    "pool = \"front\"\n",
    "profile = \"katran-v2\"\n",
    "server_id_length = 8\n",
];

static GOOD: LazyLock<Config> = LazyLock::new(|| match config::parse(&Source::new("example", EXAMPLE)) {
    Ok(config) => config,
    Err(problems) => panic!("{problems}"),
});

fuzz_target!(|data: &[u8]| {
    let Some((&mode, rest)) = data.split_first() else { return };
    let text = |example: &str| match mode & 1 {
        0 => String::from_utf8_lossy(rest).into_owned(),
        _ => edited(example, rest),
    };
    if mode & 2 == 0 {
        match config::parse(&Source::new("fuzz.toml", text(EXAMPLE))) {
            Err(problems) => placed(&problems),
            Ok(config) => {
                let services = from_config::services(&config);
                assert_eq!(services.len(), config.services.len());
                for (spec, service) in services.iter().zip(&config.services) {
                    assert_eq!(spec.backends.len(), service.backends.len(), "a backend without a tunnel");
                }
            }
        }
    } else if let Err(problems) = events::parse(&Source::new("fuzz.toml", text(EVENTS)), &GOOD) {
        placed(&problems);
    }
});

/// Every problem is somewhere, says something, and can be shown.
fn placed(problems: &Problems) {
    let lines = problems.source().text().lines().count().max(1);
    let records = problems.records();
    assert!(!records.is_empty());
    for record in records {
        assert!((1..=lines + 1).contains(&record.line) && record.column >= 1, "{record:?}");
        assert!(!record.message.is_empty(), "{record:?}");
    }
    assert!(problems.render(false).contains("fuzz.toml"));
}

/// The example after edits of four bytes each: where (two), how many bytes go, which token comes.
fn edited(example: &str, edits: &[u8]) -> String {
    let mut text = example.as_bytes().to_vec();
    for edit in edits.chunks_exact(4) {
        let at = usize::from(u16::from_be_bytes([edit[0], edit[1]])) % (text.len() + 1);
        let end = (at + usize::from(edit[2] % 32)).min(text.len());
        let token = TOKENS[usize::from(edit[3]) % TOKENS.len()];
        text.splice(at..end, token.bytes());
    }
    String::from_utf8_lossy(&text).into_owned()
}
