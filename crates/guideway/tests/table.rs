//! The table commands as a user meets them: arguments and standard input in, text and exit code out.

mod binary;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use binary::{guideway, guideway_with_input, json, refused, scratch};

#[test]
fn the_draft_shows_the_papers_example() {
    let run = guideway("table draft --preference B0=3/4 --preference B1=0/2 --preference B2=3/1");
    let expected = "\
draft of a table of 7 slots, preferences as given

     backend  weight  offset  skip  wants
  A  B0            1       3     4  3 0 4 1 5 2 6
  B  B1            1       0     2  0 2 4 6 1 3 5
  C  B2            1       3     1  3 4 5 6 0 1 2

  turn  round  backend     slot  table          found taken
     1      1  A  B0          3  . . . A . . .
     2      1  B  B1          0  B . . A . . .
     3      1  C  B2          4  B . . A C . .  3
     4      2  A  B0          1  B A . A C . .  0 4
     5      2  B  B1          2  B A B A C . .
     6      2  C  B2          5  B A B A C C .
     7      3  A  B0          6  B A B A C C A  5 2
";
    assert_eq!(run.out, expected);
    assert_eq!(run.code, 0);
}

#[test]
fn a_draft_and_a_build_give_the_same_table() {
    for profile in ["native", "reference"] {
        let draft = json(&format!("table draft --json --size 31 --profile {profile} --backends c,a,b=3"));
        let build = json(&format!("table build --json --size 31 --profile {profile} --backends c,a,b=3"));
        let names = ["c", "a", "b"];
        let slots = build["slots"].as_array().unwrap();
        let turns = draft["turns"].as_array().unwrap();
        assert_eq!(turns.len(), 31);
        for turn in turns {
            let owner = slots[turn["slot"].as_u64().unwrap() as usize].as_u64().unwrap();
            assert_eq!(turn["backend"], names[owner as usize], "{profile} {turn}");
        }
    }
}

#[test]
fn the_order_of_backends_changes_no_digest() {
    let digest =
        |backends: &str| json(&format!("table build --json --backends {backends}"))["digest"].clone();
    assert_eq!(digest("a,b=2,c"), digest("c,b=2,a"));
    assert_ne!(digest("a,b=2,c"), digest("a,b,c"));
}

#[test]
fn a_name_with_control_characters_stays_on_its_row_and_off_the_terminal() {
    let backends = "\"a\\nb\\u001b[31m\"\n\"c\"\n";
    for command in ["table build --size 7", "table draft", "table lookup key --size 2"] {
        let run = guideway_with_input(&command.split_whitespace().collect::<Vec<_>>(), backends);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(!run.out.contains('\u{1b}') && !run.out.contains("a\nb"), "{command}: {}", run.out);
    }
    let build = guideway_with_input(&["table", "build", "--size", "7"], backends);
    assert!(build.out.contains(r"a\nb\u{1b}[31m"), "{}", build.out);
}

#[test]
fn binary_tables_are_little_endian_indices() {
    let path = scratch("table.bin");
    let run =
        guideway(&format!("table build --backends a,b,c --size 1021 --format bin --out {}", path.display()));
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    let bytes = std::fs::read(&path).unwrap();
    let (words, rest) = bytes.as_chunks::<4>();
    assert!(rest.is_empty());
    let slots: Vec<u64> = words.iter().map(|word| u32::from_le_bytes(*word).into()).collect();
    let build = json("table build --backends a,b,c --size 1021 --json");
    let expected: Vec<u64> =
        build["slots"].as_array().unwrap().iter().map(|slot| slot.as_u64().unwrap()).collect();
    assert_eq!(slots, expected);
}

#[test]
fn backends_come_from_flags_files_and_standard_input_alike() {
    let flags = guideway("table build --backends a,b=2,c=0");
    let lines = "{\"name\":\"a\"}\n{\"key\":\"b\",\"weight\":2}\n{\"name\":\"c\",\"weight\":0}\n";
    let array = r#"["a", {"name": "b", "weight": 2}, {"name": "c", "weight": 0}]"#;
    let path = scratch("backends.json");
    std::fs::write(&path, array).unwrap();
    let file = guideway(&format!("table build --file {}", path.display()));
    let piped = guideway_with_input(&["table", "build"], lines);
    let dash = guideway_with_input(&["table", "build", "--file", "-"], array);
    for run in [&file, &piped, &dash] {
        assert_eq!((run.code, &run.out), (0, &flags.out), "{}", run.err);
    }
}

#[test]
fn a_lookup_agrees_with_the_table() {
    for profile in ["native", "reference", "envoy", "poise"] {
        let common = format!("--json --profile {profile} --size 1021 --backends 10.0.0.1:80,10.0.0.2:80");
        let slots = json(&format!("table build {common}"))["slots"].clone();
        let found = json(&format!("table lookup user-42 {common}"));
        let slot = found["slot"].as_u64().unwrap();
        assert_eq!(found["hash"].as_u64().unwrap() % 1021, slot, "{profile}");
        assert_eq!(slots[slot as usize], found["backend_index"], "{profile}");
    }
    let text = guideway("table lookup --flow tcp,198.51.100.7:40000,192.0.2.10:443 --backends a,b,c").out;
    for step in ["hash", "slot", "backend"] {
        assert!(text.contains(&format!("  {step} ")), "{text}");
    }
    for policy in ["rendezvous", "ring", "jump", "modulo"] {
        let found = json(&format!("table lookup k --json --backends a,b,c --policy {policy}"));
        assert!(found["slot"].is_null() && found["backend"].is_string());
    }
}

#[test]
fn a_diff_counts_what_moves_and_why() {
    let rendezvous = json("table diff --json --backends a,b,c,d --remove b --policy rendezvous-table");
    assert_eq!((&rendezvous["needless"], &rendezvous["moved"]), (&0.into(), &rendezvous["departed"]));
    let maglev = json("table diff --json --backends a,b,c,d --remove b");
    assert_eq!(maglev["compared"], 65_537);
    assert!(maglev["needless"].as_u64().unwrap() < 655);
    let modulo = json("table diff --json --backends a,b,c,d --remove b --policy modulo");
    assert_eq!(modulo["unit"], "flows");
    assert!(modulo["needless"].as_u64() > maglev["needless"].as_u64());
    let to = json("table diff --json --backends a,b --to b,a");
    assert_eq!(to["moved"], 0);
    let migration = json("table diff --json --backends 10.0.0.1:80,10.0.0.2:80 --to-profile envoy");
    assert_eq!(migration["new"]["profile"], "envoy");
}

#[test]
fn a_diff_exits_with_1_only_when_asked() {
    assert_eq!(guideway("table diff --backends a,b --add c").code, 0);
    assert_eq!(guideway("table diff --backends a,b --add c --exit-code").code, 1);
    assert_eq!(guideway("table diff --backends a,b --exit-code").code, 0);
}

#[test]
fn golden_records_verify_and_wrong_ones_do_not() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guideway-hash/vectors");
    let mut files: Vec<String> = std::fs::read_dir(golden)
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .filter(|path| path.ends_with(".json"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let args: Vec<&str> =
        ["table", "verify", "--quiet"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let run = guideway_with_input(&args, "");
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(run.out.ends_with("records hold\n"), "{}", run.out);

    let record = r#"[{"profile":"go-maglev","case":"swapped","table_size":7,"backends":[{"key":"backend-0"},{"key":"backend-1"}],"sha256_le_u32":"00"}]"#;
    let wrong = guideway_with_input(&["table", "verify", "-"], record);
    assert_eq!(wrong.code, 1);
    assert!(
        wrong.out.contains("FAIL  go-maglev  swapped") && wrong.out.contains("1 of 1 records differ"),
        "{}",
        wrong.out
    );

    let broken = scratch("broken.json");
    std::fs::write(&broken, "[\n  {\"profile\": \"envoy\",\n  ]\n").unwrap();
    refused(&format!("table verify {}", broken.display()), 1, &["broken.json:3:", "array of records"]);
    refused("table verify no-such-file.json", 1, &["no-such-file.json", "No such file"]);
}

#[test]
fn bad_input_is_refused_with_its_place_and_a_remedy() {
    refused("table build --profile envyo --backends a", 2, &["envyo", "similar value exists: 'envoy'"]);
    for policy in ["maglev", "rendezvous-table", "rendezvous", "ring", "jump", "modulo"] {
        // A look-up is there for all of them.
        let line = format!("table lookup key --backends a,b,a --policy {policy}");
        refused(&line, 1, &["backend 0 (\"a\") and backend 2 (\"a\") have the same identity"]);
    }
    refused("table draft --backends a,a", 1, &["backend 0 (\"a\") and backend 1 (\"a\")"]);
    refused("table build --backends a,b --size 8", 2, &["8", "nearest sizes are 7 and 11"]);
    refused("table build --backends a,b,c --size 2", 1, &["larger table"]);
    refused("table build --backends a=0", 1, &["no backend"]);
    refused("table build --backends a=-1", 2, &["-1", "whole number"]);
    refused("table build --backends a,,b", 2, &["no name"]);
    refused("table build --backends a --size many", 2, &["many", "auto"]);
    refused("table build --backends a --param sed=1", 2, &["sed", "did you mean \"seed\""]);
    refused("table build --backends a --policy ring", 2, &["ring has no table"]);
    refused("table build --backends a:1 --profile envoy --policy ring", 2, &["envoy has its own rule"]);
    refused("table build --backends a:1 --profile envoy --seed 1", 2, &["no parameter \"seed\""]);
    refused("table build --profile katran-v2 --backends nonsense", 1, &["nonsense", "address"]);
    refused("table build --file no-such-file", 1, &["no-such-file"]);
    refused("table diff --backends alpha,beta --remove alpa", 2, &["did you mean \"alpha\""]);
    refused("table draft --profile envoy --backends a:1", 2, &["envoy has no draft"]);
    refused("table lookup k --profile cilium --backends [10.0.0.1:8080/TCP,State:active]", 2, &["--flow"]);
    refused("table lookup --flow tcp,1.2.3.4,5.6.7.8:1 --backends a", 2, &["1.2.3.4", "address and port"]);
    let misspelt =
        guideway_with_input(&["table", "build"], "{\"name\":\"a\"}\n{\"name\":\"b\",\"wieght\":2}\n");
    assert_eq!(misspelt.code, 1);
    assert!(
        misspelt.err.contains("standard input:2:") && misspelt.err.contains("wieght"),
        "{}",
        misspelt.err
    );
    let nothing = guideway_with_input(&["table", "build"], "");
    assert!(nothing.code == 1 && nothing.err.contains("names no backend"), "{}", nothing.err);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_guideway"))
        .args("table draft --backends a,b,c --size 65537".split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut start = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn text_for_programs_has_no_colour() {
    for line in ["table profiles", "table build --backends a,b --size 7", "table diff --backends a,b --add c"]
    {
        assert!(!guideway(line).out.contains('\u{1b}'), "{line}");
    }
}

#[test]
fn help_teaches_and_tells_the_exit_codes() {
    for line in ["--help", "table --help", "table diff --help", "table verify --help"] {
        let help = guideway(line);
        assert!(help.code == 0 && help.out.contains("Exit codes:"), "{line}");
    }
    for command in ["build", "draft", "diff", "lookup", "verify", "profiles"] {
        let help = guideway(&format!("table {command} --help"));
        assert!(help.out.contains("Example"), "{command}");
    }
    assert!(guideway("--version").out.starts_with("guideway "));
    assert!(guideway("completions bash").out.contains("guideway"));
    let pages = scratch("man");
    assert_eq!(guideway(&format!("man {}", pages.display())).code, 0);
    assert!(pages.join("guideway-table-build.1").exists());
}
