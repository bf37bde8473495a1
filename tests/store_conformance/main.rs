//! What a callback store promises, held by every store there is.

mod cases;
mod cluster;
mod history;
mod model;
mod offers;

use std::sync::Arc;

use cluster::Cluster;
use floorkeeper::store::{
    Health, Limits, OpenError, PostgresStore, Refused, STORES, Sealed, Store, find,
};
use history::Seen;
use offers::{NOW, Place, offer};

/// Every case, under its name.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $case() {
                    crate::cases::$case(&crate::offers::Place::file()).await;
                }
            )*
        }

        async fn every_case(place: &Place) {
            $(
                println!("{}", stringify!($case));
                cases::$case(place).await;
            )*
        }
    };
}

cases![
    what_is_promised_is_on_record,
    every_bound_refuses,
    nothing_is_on_record_twice,
    a_bad_offer_changes_nothing,
    a_claim_is_fenced,
    what_is_out_of_turn_is_refused,
    attempts_are_bounded_and_spaced,
    an_unknown_dial_is_not_dialled_again,
    a_dead_letter_is_replayed_as_a_new_offer,
    time_alone_is_enough,
    the_list_is_paged,
    a_full_inbox_is_an_answer,
    a_bound_holds_for_offers_that_come_together,
    a_handoff_is_acknowledged_once_and_in_time,
    handoffs_are_bounded_and_end,
    a_tenants_handoffs_are_listed_beside_everybodys,
];

/// Invariants 4, 8 and 11.
#[tokio::test]
async fn sqlite_and_the_model_agree() {
    let place = Place::file();
    let mut seen = Seen::new();
    for ops in history::cases(150, 90) {
        history::run(&place, ops, &mut seen).await;
    }
    history::saw_everything(&seen);
}

/// One server for all of it, as starting one takes longer than using it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    let cluster = Cluster::start();
    let place = Place::Postgres(cluster.url());
    every_case(&place).await;
    let mut seen = Seen::new();
    for ops in history::cases(25, 90) {
        history::run(&place, ops, &mut seen).await;
    }
    two_nodes_never_claim_the_same(&place).await;
    two_nodes_accept_within_one_bound(&place).await;
    a_node_may_end_more_than_it_has_seen(&place).await;
    what_the_server_calls_wrong_seals_nothing(&place, &cluster).await;
    a_lost_connection_seals_until_it_is_back(&place, &cluster).await;
    a_later_schema_is_left_alone(&cluster).await;
    a_server_that_may_forget_is_refused(&cluster).await;
}

/// Invariant 8 over a fleet: `FOR UPDATE SKIP LOCKED` and the epoch.
async fn two_nodes_never_claim_the_same(place: &Place) {
    let nodes = [place.fresh(Limits::default()).await, place.open(Limits::default()).await];
    for n in 0..300 {
        nodes[0].accept(offer(n), NOW).await.expect("it is accepted");
    }
    let work = |node: Arc<dyn Store>, name: &'static str| async move {
        let mut mine = Vec::new();
        loop {
            let claimed = node.claim(name.to_owned(), 1_000, 7, NOW).await.expect("a claim");
            if claimed.is_empty() {
                return mine;
            }
            for record in claimed {
                assert_eq!((record.epoch, &*record.worker), (1, name));
                node.start_dialling(record.id, record.epoch, NOW).await.expect("it is ours");
                mine.push(record.id);
            }
        }
    };
    let [a, b] = nodes;
    let (a, b) = tokio::join!(tokio::spawn(work(a, "a")), tokio::spawn(work(b, "b")));
    let mut all = [a.expect("node a"), b.expect("node b")].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 300);
}

/// C-035 over a fleet: two that count at once do not both find the last place.
async fn two_nodes_accept_within_one_bound(place: &Place) {
    let bounds = Limits { records: 50, ..Limits::default() };
    let nodes = [place.fresh(bounds.clone()).await, place.open(bounds).await];
    let asked: Vec<_> = (0..200).map(|n| nodes[n as usize % 2].accept(offer(n), NOW)).collect();
    let mut taken = 0;
    for asked in asked {
        match asked.await {
            Ok(_) => taken += 1,
            Err(refused) => assert_eq!(refused.label(), "full"),
        }
    }
    assert_eq!(taken, 50);
    assert_eq!(nodes[1].counts().await.expect("counts").open, 50);
    let same = |node: usize| nodes[node].accept(offer(300), NOW);
    let (one, other) = tokio::join!(same(0), same(1));
    assert!(one.is_err() && other.is_err(), "{one:?} {other:?}");
}

/// A node's own account cannot close over a fleet, and says so.
async fn a_node_may_end_more_than_it_has_seen(place: &Place) {
    let nodes = [place.fresh(Limits::default()).await, place.open(Limits::default()).await];
    let id = nodes[0].accept(offer(1), NOW).await.expect("it is accepted").id;
    nodes[1].cancel(id, NOW).await.expect("it is there");
    assert_eq!((nodes[0].ledger().open(), nodes[1].ledger().open()), (Some(1), None));
    assert!(nodes[0].is_shared());
}

/// A value that cannot be is refused; those that came with it, and the store, are as they were.
async fn what_the_server_calls_wrong_seals_nothing(place: &Place, cluster: &Cluster) {
    let store = place.fresh(Limits::default()).await;
    let wrong = format!(
        "CREATE FUNCTION floorkeeper.wrong() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN RAISE EXCEPTION USING ERRCODE = ''22021'', MESSAGE = ''no such text''; END'; \
         CREATE TRIGGER wrong BEFORE INSERT ON floorkeeper.callbacks FOR EACH ROW \
         WHEN (NEW.destination = '{}') EXECUTE FUNCTION floorkeeper.wrong()",
        offer(2).destination
    );
    cluster::run(&cluster.url(), &wrong).await;
    let asked: Vec<_> = (1..4).map(|n| store.accept(offer(n), NOW)).collect();
    for (n, asked) in (1..4).zip(asked) {
        match (n, asked.await) {
            (2, Err(Refused::Bad { problem, .. })) => assert!(problem.contains("no such text")),
            (1 | 3, Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(*store.health().borrow(), Health::Open);
    let ledger = store.ledger();
    assert_eq!((ledger.offered, ledger.accepted, ledger.refused["bad_request"]), (3, 2, 1));
    let undone = "DROP FUNCTION floorkeeper.wrong CASCADE";
    cluster::run(&cluster.url(), undone).await;
}

/// P12: nothing is promised while it is away, and it opens again by itself.
async fn a_lost_connection_seals_until_it_is_back(place: &Place, cluster: &Cluster) {
    let store = place.fresh(Limits::default()).await;
    let kept = store.accept(offer(1), NOW).await.expect("it is accepted").id;
    let mut health = store.health();
    cluster.down();
    let sealed = |health: &Health| matches!(health, Health::Sealed(Sealed::ConnectionLost(_)));
    health.wait_for(sealed).await.expect("the store says so by itself");
    let refused = store.accept(offer(2), NOW).await;
    assert!(matches!(refused, Err(Refused::Sealed(Sealed::ConnectionLost(_)))), "{refused:?}");
    assert_eq!(store.ledger().refused["sealed"], 1);
    cluster.up();
    health.wait_for(|health| *health == Health::Open).await.expect("it opens by itself");
    store.accept(offer(2), NOW).await.expect("it is accepted");
    assert_eq!(store.get(kept).await.expect("a read").expect("it").offer, offer(1));
}

async fn a_later_schema_is_left_alone(cluster: &Cluster) {
    cluster::run(&cluster.url(), "INSERT INTO floorkeeper.schema_version VALUES (99)").await;
    let refused = PostgresStore::open(&cluster.url(), Limits::default()).await.err();
    assert!(matches!(refused, Some(OpenError::Newer { found: 99, .. })), "{refused:?}");
    cluster::run(&cluster.url(), "DROP SCHEMA floorkeeper CASCADE").await;
}

/// P12: a commit that is not flushed is no commit.
async fn a_server_that_may_forget_is_refused(cluster: &Cluster) {
    let url = cluster.url();
    cluster::run(&url, "ALTER SYSTEM SET fsync = off").await;
    cluster.down();
    cluster.up();
    let refused = PostgresStore::open(&url, Limits::default()).await.err();
    let said = refused.map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("fsync = off"), "{said}");
}

#[tokio::test]
async fn the_table_opens_what_it_names() {
    let names: Vec<&str> = STORES.iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["sqlite", "postgres"]);
    let open = |name: &str, table: &str| {
        let table: toml::Table = table.parse().expect("a table");
        (find(name).expect("its name").open)(&table, Limits::default())
    };
    let said = |error: Option<OpenError>| error.map(|e| e.to_string()).unwrap_or_default();
    let none = said(find("mysql").err());
    assert!(none.starts_with("store.provider: ") && none.contains("one of: sqlite, postgres"));
    assert!(said(open("sqlite", "").await.err()).starts_with("store.path: is missing"));
    let wrong = open("sqlite", "path = \"/nonexistent/folder/file\"").await.err();
    assert!(said(wrong).contains("cannot be opened"));
    let wrong = open("postgres", "url_env = \"FLOORKEEPER_NO_SUCH_VARIABLE\"").await.err();
    assert!(said(wrong).starts_with("store.url_env: there is no environment variable"));
    let wrong = open("postgres", "url = \"host=127.0.0.1 sslmode=require\"").await.err();
    let wrong = said(wrong);
    assert!(wrong.starts_with("store.url: ") && wrong.contains("TLS is not built in"), "{wrong}");
    let wrong =
        open("postgres", "url = \"host=127.0.0.1 port=1 user=u password=hush\"").await.err();
    let wrong = said(wrong);
    assert!(wrong.contains("cannot be opened") && !wrong.contains("hush"), "{wrong}");
}

/// Runs the tests of the store in a file in a process of their own, as the variant of this name;
/// gives the first that broke.
#[cfg(feature = "mutants")]
fn breaks(name: &str) -> Option<String> {
    let itself = std::env::current_exe().expect("a test knows its own file");
    let mut tests = std::process::Command::new(itself);
    let tests = tests.arg("sqlite").env("FLOORKEEPER_MUTANT", name).output();
    let tests = tests.expect("a test can start itself");
    let told = String::from_utf8_lossy(&tests.stdout).into_owned();
    let first = told.lines().find(|line| line.ends_with("FAILED")).map(str::to_owned);
    (!tests.status.success()).then(|| first.unwrap_or(told))
}

#[cfg(feature = "mutants")]
#[test]
fn every_mutant_is_caught() {
    assert_eq!(breaks(""), None);
    for name in floorkeeper::store::mutant::RULES {
        let broke = breaks(name);
        println!("{name}: {}", broke.as_deref().unwrap_or("SURVIVED"));
        assert!(broke.is_some(), "{name} broke nothing that a test sees");
    }
}
