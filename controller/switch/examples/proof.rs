//! What a proof costs and what it is worth: `cargo run --release -p controller-switch --example proof [SERVERS [FAULTS]]`.
//!
//! Prints the time to plan a fabric of that many servers with 8 rails, to check it, and how many faults that are made in it one at a time
//! are caught and confirmed; then how many of as many other right fabrics are found wrong.

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::time::Instant;

use controller_switch::{
    check::{Facts, Verdict, check},
    mutate,
    sample::Shape,
    state::BufferModel,
};
use proto_profile::QosProfile;

fn main() -> Result<(), String> {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse().ok());
    let servers = numbers.next().unwrap_or(1024);
    let faults = numbers.next().unwrap_or(1000);
    let profile = QosProfile::default();
    let switches = Shape { servers, ..Shape::default() }.switches().map_err(|why| why.to_string())?;
    let at = Instant::now();
    let facts = Facts::desired(&profile, &switches, BufferModel::Static);
    let mut facts =
        facts.map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    println!("planned in {:.0} ms", at.elapsed().as_secs_f64() * 1e3);
    let at = Instant::now();
    let verdict = check(&profile, &switches, &facts).map_err(|why| why.to_string())?;
    println!("checked in {:.0} ms", at.elapsed().as_secs_f64() * 1e3);
    match verdict {
        Verdict::Proof(proof) => println!("{proof}"),
        Verdict::Counterexample(found) => println!("{found}"),
    }
    let at = Instant::now();
    let count = usize::try_from(faults).unwrap_or(usize::MAX);
    let outcome = mutate::run(&profile, &switches, &mut facts, 1, count).map_err(|why| why.to_string())?;
    println!(
        "{} faults: {} caught, {} confirmed, in {:.1} s",
        outcome.made,
        outcome.caught,
        outcome.confirmed,
        at.elapsed().as_secs_f64()
    );
    let mut wrong = 0;
    for seed in 0..u64::from(faults) {
        let variant = mutate::variant(seed).map_err(|why| why.to_string())?;
        let switches = variant.shape.switches().map_err(|why| why.to_string())?;
        let facts = Facts::desired(&variant.profile, &switches, variant.model);
        let facts =
            facts.map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
        let verdict = check(&variant.profile, &switches, &facts).map_err(|why| why.to_string())?;
        wrong += u32::from(!matches!(verdict, Verdict::Proof(_)));
    }
    println!("{faults} other right fabrics: {wrong} found wrong");
    Ok(())
}
