//! What orders the queue, as people are told.

use std::time::Duration;

use proto_model::Role;

use super::*;

#[test]
fn the_order_that_is_told_is_the_order_of_starts() {
    let mut w = World::new();
    w.submit("full", spec(4, 4));
    w.run("full");
    w.tick(Duration::from_secs(3600));
    w.submit("late", spec(1, 4));
    w.submit("high", JobSpec { priority: 5, ..spec(1, 4) });
    w.ok(submit_as("blue", "poor", spec(1, 4), None));
    w.submit("held", spec(1, 4));
    let order = super::holds::order("held", Role::User);
    w.ok(Event::HoldJob { order: Box::new(order), reason: String::new() });
    let order = w.state.queue_order(None, 100, w.now);
    let names: Vec<&str> = order.rows.iter().map(|row| row.job.id.name.as_str()).collect();
    // Priority, then who has used less, then age.
    assert_eq!(names, ["high", "poor", "late", "held"]);
    assert_eq!((order.waiting, order.fair_share), (4, true));
    let row = |at: usize| &order.rows[at];
    assert_eq!((row(0).position, row(0).standing.priority), (1, 5));
    assert_eq!((row(3).position, row(3).held, row(2).held), (4, true, false));
    let share = |at: usize| row(at).standing.tenant_share;
    assert!(share(1) < share(2) && share(1) == 0.0, "{} {}", share(1), share(2));
    // People of a tenant see theirs, at their places.
    let own = w.state.queue_order(Some(&tenant("red")), 100, w.now);
    let places: Vec<usize> = own.rows.iter().map(|row| row.position).collect();
    assert_eq!(places, [1, 3, 4]);
    assert_eq!(w.state.queue_order(Some(&tenant("red")), 1, w.now).rows.len(), 1);
    let (shares, _) = w.state.shares(Some(&tenant("red")), w.now);
    assert_eq!((shares.len(), shares[0].held, shares[0].running, shares[0].waiting), (1, 16, 1, 3));
    assert_eq!(w.state.shares(None, w.now).0.len(), 2);
    // What has ended counts.
    let before = shares[0].used;
    w.ok(Event::Cancel { by: None, id: id("full"), indices: Vec::new(), grace: None });
    w.all("full", proto_model::Observed::Ended);
    let (shares, _) = w.state.shares(Some(&tenant("red")), w.now);
    assert!(shares[0].used >= before + 16.0 * 3000.0, "{}", shares[0].used);
}
