//! Boards of older releases: the adapter does what the release that made them does.
//!
//! Scripts in `tests/scenarios/versions` use only what every release has; blocks have no kind there.

use std::path::Path;

use super::scripts;

fn play(release: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/versions");
    scripts::play_all(&scripts::scripts(&folder), release);
}

#[test]
fn a_board_of_0_13_is_written_as_0_13_writes_it() {
    play("0.13.0");
}

#[test]
fn a_board_of_0_15_is_written_as_0_15_writes_it() {
    play("0.15.2");
}

#[test]
fn a_board_of_0_16_is_written_as_0_16_writes_it() {
    play("0.16.0");
}

#[test]
fn a_board_of_0_18_is_written_as_0_18_writes_it() {
    play("0.18.2");
}

#[test]
fn a_board_of_0_19_is_written_as_0_19_writes_it() {
    play("0.19.0");
}
