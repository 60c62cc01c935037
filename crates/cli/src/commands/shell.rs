//! `zebu shell`: hands its words over to the shell, which reads them as zkCli would.

use std::process::ExitCode;

use clap::Args;

use crate::shell;

/// Work with a server: zkCli's commands and more, one at a time or in a session
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu shell                                       a session with localhost:2181
  zebu shell -server zk1:2181,zk2:2181/apps        other servers, paths below /apps
  zebu shell -server zk1:2181 get -s /config       one command; the exit status tells
  zebu shell --json ls /                           the answer as JSON
  zebu -server zk1:2181 get /config                the same words as zkCli.sh takes
  zebu -q create -s /queue/item-                   a script reads the name from standard output
  echo 'ls /' | zebu shell                         commands from a file or a pipe
  zebu shell --tls-ca ca.pem --tls-cert me.pem -server zk1:2281 whoami
  zebu shell --tls-ca ca.pem --sasl-user shop --sasl-password-file pw -server zk1:2281

Options in front of the command:
  -server HOST:PORT[,HOST:PORT]...[/CHROOT]   [localhost:2181]
  -timeout MILLISECONDS                       session timeout [30000]
  -r, --readonly                              a read-only server will do
  -waitforconnection                          wait for a connection before the first command
  --tls-ca FILE                               TLS; trusted authorities as PEM, PKCS12 or JKS
  --tls-ca-password-file FILE                 the password of a PKCS12 or JKS --tls-ca
  --tls-cert FILE                             own certificate: PEM, or PKCS12 or JKS with the key inside
  --tls-key FILE                              private key in PEM, if --tls-cert does not hold it
  --tls-key-password-file FILE                the password of the key or of its store
  --tls                                       TLS with the stores of -D and -client-configuration
  --tls-skip-hostname-check                   any host with a certificate of a trusted authority will do
  --sasl-user USER                            authenticate by SASL (DIGEST-MD5)
  --sasl-password-file FILE                   its password; without it the variable ZEBU_SASL_PASSWORD
  -DNAME=VALUE                                a property of the Java client: -Dzookeeper.client.secure=true
  -client-configuration FILE                  properties of the Java client, one per line
  -q, --quiet                                 answers only, without what zkCli says besides; create prints the path
  --json                                      answers and errors as JSON, one object per line on standard output

zebu shell help lists the commands, zebu shell help COMMAND explains one.
Exit status: 0 done, 1 refused or failed, 2 unreadable client configuration, 127 no such command.")]
pub(crate) struct Shell {
    /// What zkCli.sh takes: options, then perhaps a command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS AND COMMAND")]
    arguments: Vec<String>,
}

impl Shell {
    /// Runs the shell.
    pub(crate) fn run(self) -> ExitCode {
        shell::run(&self.arguments)
    }
}
