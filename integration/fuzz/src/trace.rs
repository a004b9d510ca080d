//! Traces of jobs: every row is a job or refused, in whatever pieces the bytes come.

use controller_simulator::{
    Decoder,
    trace::{MAX_GPUS, MAX_RUN, MAX_TIME, acme, read},
};

/// Reads the bytes as a trace at once and in pieces; both say the same, and every row is accounted for.
pub fn run(data: &[u8]) {
    let whole = read(data);
    let mut decoder = Decoder::new();
    let (mut rest, mut length) = (data, 1);
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(length.min(rest.len()));
        decoder.push(piece);
        (rest, length) = (more, length % 97 + 3);
    }
    assert_eq!(decoder.finish(), whole);
    let trace = match whole {
        Ok(trace) => trace,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let account = &trace.account;
    assert_eq!(account.rows, account.kept + account.refused);
    assert_eq!(account.kept, (trace.jobs.len() + trace.statistics.len()) as u64);
    assert!(account.repaired <= account.kept);
    assert_eq!(account.refusals.values().map(|count| count.rows).sum::<u64>(), account.refused);
    assert!(trace.jobs.is_sorted_by_key(|job| (job.submit, job.line)));
    for job in &trace.jobs {
        assert!((1..=MAX_RUN).contains(&job.run) && job.submit <= MAX_TIME, "{job:?}");
        assert!((1..=MAX_GPUS).contains(&job.gpus) && !job.tenant.is_empty(), "{job:?}");
    }
    for of in &trace.statistics {
        let jobs = acme::draw(of, 50, 1);
        assert_eq!(jobs.len(), 50);
        assert!(jobs.iter().all(|job| job.run > 0 && (1..=of.max_gpus).contains(&job.gpus)), "{of:?}");
    }
}
