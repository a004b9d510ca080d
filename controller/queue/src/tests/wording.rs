//! Causes in words, with one and with several of everything.

use super::world::{job_of, nodes, part, policy, uid};
use crate::{QueueState, WaitCause, WaitReasons};

/// The messages of causes about a job.
fn said(entry: &crate::Entry, causes: Vec<WaitCause>) -> Vec<String> {
    let why = WaitReasons { causes, ..WaitReasons::default() };
    why.reasons(&QueueState::new(policy()), entry).into_iter().map(|reason| reason.message).collect()
}

#[test]
fn one_is_one_and_several_are_several() {
    let one = job_of("a", 1, part(1), 0, 5).entry;
    let causes = vec![
        WaitCause::Jobs(1),
        WaitCause::AtOnce(1),
        WaitCause::Shape(1),
        WaitCause::Capacity { nodes: 1, gpus: 1 },
        WaitCause::Yielding(vec![uid(1)]),
        WaitCause::Limit { queue: None, held: 1, limit: 1 },
    ];
    let gpus = if one.need.gpus == 1 { "1 GPU".to_owned() } else { format!("{} GPUs", one.need.gpus) };
    let expected = [
        "running of tenant 'a': 1 job, more may not".to_owned(),
        "running of the array: 1 element, more may not at a time".to_owned(),
        "the job asks for 1 node, of those that take jobs 1 has what it asks of each".to_owned(),
        format!("the job asks for 1 node with {gpus}; free: 1 node as a whole, and 1 GPU on others"),
        "being stopped for it: 1 job".to_owned(),
        format!("tenant/a holds 1 of its 1 GPU, the job asks for {}", one.need.gpus),
    ];
    assert_eq!(said(&one, causes), expected);
    let many = job_of("a", 2, nodes(3), 0, 5).entry;
    let causes = vec![
        WaitCause::LimitTooSmall(8),
        WaitCause::Shape(2),
        WaitCause::Capacity { nodes: 0, gpus: 0 },
        WaitCause::Yielding(vec![uid(1), uid(2)]),
    ];
    let (each, all) = (many.need.gpus, many.gpus(3));
    let expected = [
        format!("the job asks for {all} GPUs in all, its tenant, its queue or its user may hold 8"),
        "the job asks for 3 nodes, of those that take jobs 2 have what it asks of each".to_owned(),
        format!("the job asks for 3 nodes with {each} GPUs; free: 0 nodes as a whole, and 0 GPUs on others"),
        "being stopped for it: 2 jobs".to_owned(),
    ];
    assert_eq!(said(&many, causes), expected);
}
