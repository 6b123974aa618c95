//! The program `hermes-pool`. Everything is in the library, see [`hermes_pool::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    hermes_pool::cli::main()
}
