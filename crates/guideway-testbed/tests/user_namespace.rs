//! A test bed without root: in a user namespace. A program of its own, since a process with several threads cannot enter
//! one.

use std::process::ExitCode;

use guideway_testbed::backend::HTTP_PORT;
use guideway_testbed::client::http;
use guideway_testbed::soft::SoftForwarder;
use guideway_testbed::{Bed, Plan, privilege, scenario, vips};

fn main() -> ExitCode {
    if let Err(error) = privilege::enter_user_namespace().and_then(|()| privilege::check()) {
        eprintln!("passed over: {error}");
        let required = std::env::var(privilege::REQUIRE_PRIVILEGES).is_ok_and(|value| value == "1");
        return if required { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let bed = Bed::<SoftForwarder>::start(&Plan::default(), &[scenario::web(3)]).unwrap();
    for vip in vips(HTTP_PORT) {
        let client = &bed.network.client;
        let answer = http::get(&client.namespace, vip, "/").unwrap();
        assert!(answer.contains(&client.address(vip.ip()).to_string()), "{answer}");
    }
    println!("a test bed in a user namespace ... ok");
    ExitCode::SUCCESS
}
