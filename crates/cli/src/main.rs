//! The one binary.
use zebu_server::config::{Environment, Inputs, ThisMachine, load};

fn main() -> std::process::ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut arguments = Vec::new();
    let mut properties = Vec::new();
    for word in std::env::args().skip(2) {
        match word.strip_prefix("-D") {
            Some(property) => properties.push(property.to_owned()),
            None => arguments.push(word),
        }
    }
    let environment = Environment(std::env::vars().collect());
    let loaded = load(&Inputs { arguments, properties, environment }, &ThisMachine);
    eprintln!("{:?}", loaded.findings);
    let Some(config) = loaded.config else { return std::process::ExitCode::from(2) };
    match zebu_server::run(config, |ready| eprintln!("listening on {}", ready.address)) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::from(error.exit_code())
        }
    }
}
