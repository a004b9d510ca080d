//! What is asked of rails in a few words: what it becomes, and what it may not be.

use proto_wire::v1::{self, engine_options::Protection, job_spec::Certification, rail_request::AvoidDrained};

use crate::rail_options::{RailOption, RailOptions, Switches, WrongOption};

const ON: Switches = Switches { off: None, on: "1" };
const BOTH: Switches = Switches { off: Some("false"), on: "true" };

fn read(pairs: &[(RailOption, &str)], switches: Switches) -> Result<RailOptions, WrongOption> {
    let given = |option| pairs.iter().find(|pair| pair.0 == option).map(|pair| pair.1.to_owned());
    RailOptions::read(given, switches)
}

#[test]
fn options_become_the_specification() {
    let mut spec = v1::JobSpec::default();
    let all = [
        (RailOption::Ranks, "8"),
        (RailOption::Count, "4"),
        (RailOption::Partial, "1"),
        (RailOption::AvoidDrained, "1"),
        (RailOption::Certify, "require"),
        (RailOption::Checksum, "1"),
        (RailOption::Protection, "integrity"),
    ];
    let options = read(&all, ON).unwrap();
    options.apply(&mut spec);
    let (rails, engine) = (spec.rails.unwrap(), spec.engine.clone().unwrap());
    assert_eq!((options.ranks, rails.required, rails.allow_partial), (Some(8), 4, true));
    assert_eq!(rails.avoid_drained(), AvoidDrained::Required);
    assert_eq!(Certification::try_from(spec.certification), Ok(Certification::Require));
    assert_eq!((engine.checksum, engine.protection()), (true, Protection::Integrity));
}

#[test]
fn what_nothing_is_said_of_stays() {
    let site = v1::JobSpec {
        gang: Some(v1::Gang { nodes: 2, ranks_per_node: 4, ..v1::Gang::default() }),
        engine: Some(v1::EngineOptions { checksum: true, ..v1::EngineOptions::default() }),
        ..v1::JobSpec::default()
    };
    for (pairs, switches) in [(&[][..], ON), (&[(RailOption::Partial, "false")][..], BOTH)] {
        let mut spec = site.clone();
        read(pairs, switches).unwrap().apply(&mut spec);
        assert_eq!(spec, site);
    }
}

#[test]
fn what_is_wrong_is_named_with_what_it_may_be() {
    for (option, given, switches, wanted) in [
        (RailOption::Ranks, "0", ON, "a number from 1 to 256"),
        (RailOption::Ranks, "-1", ON, "a number from 1 to 256"),
        (RailOption::Count, "65", BOTH, "a number from 1 to 64"),
        (RailOption::Partial, "yes", ON, "1, or not there"),
        (RailOption::Partial, "1", BOTH, "one of false, true"),
        (RailOption::Certify, "", ON, "one of warn, require"),
        (RailOption::Protection, "full", BOTH, "one of none, integrity, encrypted"),
    ] {
        let error = read(&[(option, given)], switches).unwrap_err();
        assert_eq!(error, WrongOption { option, given: given.into(), wanted: wanted.into() });
    }
    let error = read(&[(RailOption::Certify, &"x".repeat(100))], ON).unwrap_err();
    assert_eq!(error.given.len(), 64);
}
