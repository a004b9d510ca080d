//! What both kinds of steps have in common: how processes have ended, and what is sent up.

use proto_wire::v1::{self, run_step_request, step_input};

/// How the processes have ended so far.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) expected: u32,
    pub(crate) ended: u32,
    pub(crate) worst: u8,
}

impl Ends {
    pub(crate) fn exit(&mut self, exit: v1::StepExit) {
        self.ended += 1;
        let code = if exit.signal > 0 { exit.signal.saturating_add(128) } else { exit.code };
        self.worst = self.worst.max(u8::try_from(code).unwrap_or(u8::MAX));
    }

    pub(crate) fn lost(&mut self) {
        self.worst = self.worst.max(LOST);
    }
}

/// Messages that wait for the controller.
pub(crate) const WAITING: usize = 16;

pub(crate) fn input(what: step_input::What) -> v1::RunStepRequest {
    let input = v1::StepInput { what: Some(what) };
    v1::RunStepRequest { body: Some(run_step_request::Body::Input(input)) }
}

/// What a server's part counts as that was not started or was lost.
pub(crate) const LOST: u8 = 1;
