//! The connection: how it is made, what the server must promise, which schema it has.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Error, NoTls};

use crate::store::OpenError;

/// What makes schema n of schema n - 1.
const MIGRATIONS: [&str; 2] = [include_str!("schema_1.sql"), include_str!("schema_2.sql")];
/// The advisory lock under which the schema is made.
const SCHEMA_LOCK: i64 = 0x466c_6b72_0001;
/// Neither a server that does not answer nor one that waits for a lock holds us longer.
pub const LIMIT: Duration = Duration::from_secs(10);

/// A connection and the task that moves its bytes.
pub struct Link {
    pub client: Client,
    pub moves: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.moves.abort();
    }
}

/// Where to connect to.
pub fn target(url: &str) -> Result<Config, OpenError> {
    let config = |problem: String, right: &str| OpenError::Config {
        key: "store.url".to_owned(),
        problem,
        right: right.to_owned(),
    };
    let mut target: Config = url.parse().map_err(|error: Error| {
        config(said(&error), "postgres://USER:PASSWORD@HOST:PORT/DATABASE, or key=value words")
    })?;
    if target.get_ssl_mode() == SslMode::Require {
        let right = "a server on this machine or behind an encrypting tunnel, without sslmode";
        return Err(config("sslmode=require: TLS is not built in".to_owned(), right));
    }
    target.connect_timeout(LIMIT).application_name("floorkeeper");
    Ok(target)
}

/// A connection to a server that keeps what it commits, with the newest schema; and how many
/// records are open.
pub async fn open(target: &Config) -> Result<(Link, u64), OpenError> {
    let place = place(target);
    let unreachable =
        |error: Error| OpenError::Unreachable { place: place.clone(), detail: said(&error) };
    let mut link = connect(target).await.map_err(unreachable)?;
    let row = link.client.query_one("SHOW fsync", &[]).await.map_err(unreachable)?;
    if row.get::<_, &str>(0) != "on" {
        let detail = "it runs with fsync = off, so what it commits may be lost".to_owned();
        return Err(OpenError::Unreachable { place, detail });
    }
    let found = migrate(&mut link.client).await.map_err(unreachable)?;
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(OpenError::Newer { place, found, known });
    }
    let sql = "SELECT count(*) FROM callbacks WHERE shelf = 'open'";
    let row = link.client.query_one(sql, &[]).await.map_err(unreachable)?;
    Ok((link, row.get::<_, i64>(0) as u64))
}

/// A connection whose commits are durable.
pub async fn connect(target: &Config) -> Result<Link, Error> {
    let (client, connection) = target.connect(NoTls).await?;
    let moves = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the callback database ended");
        }
    });
    let link = Link { client, moves };
    let limit_ms = LIMIT.as_millis();
    link.client
        .batch_execute(&format!(
            "SET search_path = floorkeeper; SET statement_timeout = {limit_ms}; \
             SET lock_timeout = {limit_ms}; SET idle_in_transaction_session_timeout = {limit_ms}"
        ))
        .await?;
    let row = link.client.query_one("SHOW synchronous_commit", &[]).await?;
    if row.get::<_, &str>(0) == "off" {
        link.client.batch_execute("SET synchronous_commit = on").await?;
    }
    Ok(link)
}

/// Brings the schema up to ours and says which one it is then; a later one is left alone.
async fn migrate(client: &mut Client) -> Result<i64, Error> {
    let transaction = client.transaction().await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&SCHEMA_LOCK]).await?;
    transaction
        .batch_execute(
            "CREATE SCHEMA IF NOT EXISTS floorkeeper; \
             CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)",
        )
        .await?;
    let row = transaction
        .query_one("SELECT coalesce(max(version), 0)::bigint FROM schema_version", &[])
        .await?;
    let found: i64 = row.get(0);
    for (at, migration) in MIGRATIONS.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.batch_execute(migration).await?;
        let version = at as i64 + 1;
        transaction.execute("INSERT INTO schema_version VALUES ($1)", &[&version]).await?;
    }
    transaction.commit().await?;
    Ok(found.max(MIGRATIONS.len() as i64))
}

/// Host and database, and nothing of the password.
fn place(target: &Config) -> String {
    let database = target.get_dbname().unwrap_or("its default database");
    format!("the PostgreSQL database {database}")
}

/// An error with its causes, in one line.
pub fn said(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}
