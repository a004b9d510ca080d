//! Command lines with anything in them.

use std::{
    fs::File,
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use integration_harness::eventually;

use super::{
    dice::Dice,
    stage::Stage,
    tally::{CALLERS, Fault, PATIENCE, SEED, Tally},
};

/// Lines that work or could: what follows and waits is left out, and what would end the cluster.
const LINES: [&str; 50] = [
    "get jobs -o wide",
    "get nodes n0 -o json",
    "get jobs -l team=x --phase failed,running",
    "get tenants -o yaml",
    "get queues --tenant fuzz",
    "get reservations",
    "get schedules -A",
    "get licenses -o name",
    "get shares",
    "get fabric",
    "get service-classes",
    "get webhooks -A",
    "get secrets -A -o yaml",
    "get configs -A",
    "describe job train",
    "describe node n0",
    "describe tenant fuzz",
    "describe queue night --tenant fuzz",
    "describe license matlab",
    "logs train --tail 3",
    "logs train --rank 0-3",
    "cancel train --grace 1s",
    "hold job train --reason x",
    "release job train",
    "suspend job train",
    "resume job train",
    "requeue job train",
    "update job train --priority -3 --time-limit 1h",
    "explain job train --at 5m",
    "queue order --limit 3",
    "node label n1 a=b",
    "node taint n1 a=b",
    "node cordon n1 --reason x",
    "node return n1",
    "rail ls",
    "rail drain n1:0 --reason x",
    "reserve create x --nodes n[0-1] --start +2h --duration 1h --maint",
    "reserve ls",
    "tenant create other --gpus 4",
    "tenant set-quota other --weight 3 --guaranteed nodes=1",
    "delete queue night",
    "delete job train",
    "audit ls --limit 3 --since 5m",
    "history export --since 1d",
    "health -o json",
    "doctor n0",
    "whoami -o yaml",
    "version",
    "completion bash",
    "apply --file /dev/null --dry-run",
];

/// Runs that many of them.
pub fn run(stage: &Stage<'_>, inputs: u64) -> Result<Tally, String> {
    let left = AtomicU64::new(inputs);
    let mut tally = Tally::default();
    let parts: Vec<Result<Tally, String>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..CALLERS / 2)
            .map(|stream| {
                let left = &left;
                scope.spawn(move || {
                    let mut dice = Dice::new(SEED, 100 + stream);
                    let mut tally = Tally::default();
                    while left
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                        .is_ok()
                    {
                        one(stage, &line(&mut dice), stream, &mut tally)?;
                    }
                    Ok(tally)
                })
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.map(|part| part.unwrap_or_else(|_| Err("a worker panicked".to_owned()))).collect()
    });
    for part in parts {
        tally.add(part?);
    }
    Ok(tally)
}

fn line(dice: &mut Dice) -> Vec<String> {
    let mut words: Vec<String> =
        dice.of(&LINES).into_iter().flat_map(|line| line.split(' ')).map(str::to_owned).collect();
    for _ in 0..=dice.below(3) {
        // The verb stays what it is, so that none comes that waits for ever.
        let at = 1 + dice.below(words.len());
        // A process takes no NUL and no very long arguments.
        let mut text = dice.text().replace('\0', "");
        text.truncate((0..=2000).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0));
        match dice.below(5) {
            0 if at < words.len() => drop(words.remove(at)),
            1 => words.insert(at.min(words.len()), text),
            2 => {
                let other =
                    dice.of(&LINES).and_then(|line| line.split(' ').nth(dice.below(5))).unwrap_or("x");
                words.insert(at.min(words.len()), other.to_owned());
            }
            3 => {
                if let Some(word) = words.get_mut(at) {
                    let cut = dice.below(word.len() + 1);
                    word.truncate((0..=cut).rev().find(|end| word.is_char_boundary(*end)).unwrap_or(0));
                }
            }
            _ => {
                if let Some(word) = words.get_mut(at) {
                    *word = text;
                }
            }
        }
    }
    words
}

fn one(stage: &Stage<'_>, words: &[String], stream: u64, tally: &mut Tally) -> Result<(), String> {
    let path = stage.cluster.home().join(format!("line-{stream}"));
    let log = File::create(&path).map_err(|error| error.to_string())?;
    let borrowed: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = stage.cluster.command(&borrowed);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let mut child = command.spawn().map_err(|error| format!("cannot start railctl {words:?}: {error}"))?;
    let ended = eventually("the end of railctl", PATIENCE, || child.try_wait().ok().flatten());
    let Ok(status) = ended else {
        child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
        tally.answer("no end");
        tally.fault(Fault::Hang, || format!("{words:?}"));
        return Ok(());
    };
    let said =
        std::fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    tally.answer(status.to_string());
    match status.code() {
        _ if said.contains("panicked at") => tally.fault(Fault::Crash, || format!("{words:?}: {said}")),
        None => tally.fault(Fault::Crash, || format!("{words:?}: {status}")),
        Some(0..=7) => {}
        Some(code) => tally.fault(Fault::ExitCode, || format!("{words:?}: {code}: {said}")),
    }
    // A refusal says what it is about: a word of the line, an empty one in quotes, or an option of railctl's.
    let silent = said.trim().is_empty();
    let named = words.iter().any(|word| !word.is_empty() && said.contains(word.as_str()));
    let wordless = !named && !["--", "``", "''"].iter().any(|sign| said.contains(sign));
    if status.code() == Some(2) && (silent || wordless) {
        tally.fault(Fault::NoField, || format!("{words:?}: {said}"));
    }
    Ok(())
}
