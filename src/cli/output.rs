//! What a command says, and to whom.

use std::io::{self, Write};

use super::failure::Failure;

/// Writes a command's answer to stdout, with a newline. A reader that has seen enough and closed the pipe is no failure.
pub(super) fn say(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Failed(format!(
            "the answer cannot be written to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Tells on stderr what went wrong.
pub(super) fn complain(text: &str) {
    // Where stderr is closed there is nobody left to tell.
    let _ = writeln!(io::stderr(), "{text}");
}

/// The text with line breaks and other control characters escaped, so that it stays one line and moves no cursor.
pub(super) fn one_line(text: &str) -> String {
    text.chars()
        .flat_map(|character| {
            let escaped = character.is_control().then(|| character.escape_default());
            let plain = (!character.is_control()).then_some(character);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_letters_stay() {
        assert_eq!(one_line("größe\n\u{1b}[2J\tx"), "größe\\n\\u{1b}[2J\\tx");
    }
}
