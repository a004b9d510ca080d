//! Asking before something is done that cannot be taken back.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::error::Error;

/// Shows what it would cost and asks, unless `yes`. Where nobody can be asked `yes` is required.
///
/// # Errors
/// Nobody can be asked ([`Error::Usage`]), or the answer is no ([`Error::Declined`]).
pub fn confirm(what: &str, cost: &[String], yes: bool) -> Result<(), Error> {
    if yes {
        return Ok(());
    }
    let lines = || cost.iter().map(|line| format!("  {line}\n")).collect::<String>();
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let text = format!("`--yes` is needed to {what} where nobody can be asked:\n{}", lines());
        return Err(Error::Usage(text.trim_end().to_owned()));
    }
    eprint!("{}{}? [y/N] ", lines(), capital(what));
    let mut answer = String::new();
    let read = io::stderr().flush().and_then(|()| io::stdin().lock().read_line(&mut answer));
    if read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Error::Declined)
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// "1 job", "2 jobs"; nothing for none.
pub fn counted(count: u32, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {many}")),
    }
}
