//! The caller's own terminal, raw while a step has one.

use std::io::{self, IsTerminal as _};

use proto_wire::v1;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::error::Error;

/// A window where there is none.
const WINDOW: v1::StepWindow = v1::StepWindow { rows: 24, columns: 80 };

/// Raw while this lives; standard input may be none, then nothing is changed.
pub struct Terminal {
    before: Option<Termios>,
}

impl Terminal {
    /// Makes it raw: keys go to the step as they are pressed, Ctrl-C too.
    ///
    /// # Errors
    /// [`Error::Config`] if the terminal cannot be set.
    pub fn open() -> Result<Self, Error> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(Self { before: None });
        }
        let failed = |error: rustix::io::Errno| Error::Config(format!("cannot use this terminal: {error}"));
        let before = tcgetattr(&stdin).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Now, &raw).map_err(failed)?;
        Ok(Self { before: Some(before) })
    }

    /// The terminal's size now; `None` if standard input is no terminal.
    pub fn window(&self) -> Option<v1::StepWindow> {
        self.before.as_ref()?;
        let size = tcgetwinsize(io::stdin()).ok()?;
        Some(v1::StepWindow { rows: size.ws_row.into(), columns: size.ws_col.into() })
    }

    /// The terminal as the step's request describes it.
    pub fn reported(&self) -> v1::StepTerminal {
        let kind = std::env::var("TERM").ok().filter(|_| self.before.is_some());
        v1::StepTerminal {
            window: Some(self.window().unwrap_or(WINDOW)),
            kind: kind.unwrap_or_else(|| "dumb".to_owned()),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // A terminal that is gone needs nothing.
            let _ = tcsetattr(io::stdin(), OptionalActions::Drain, before);
        }
    }
}
