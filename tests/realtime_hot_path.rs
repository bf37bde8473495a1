//! What comes and goes fifty times a second costs one allocation at most, whatever its length.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use base64::Engine as _;
use floorkeeper::audio::Pcm;
use floorkeeper::id::{Generation, ItemId, ResponseId};
use floorkeeper::leg::{FromCaller, Modality, ResponseHead, ToCaller, TurnDetection};
use floorkeeper::transport::realtime::{Defaults, Outbox, Protocol};

/// Counts the current thread's allocations and what they hold.
struct Counting;

thread_local! {
    static MADE: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; the count is a plain thread-local
// cell without a destructor, so that it can be touched at any time.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MADE.with(|made| made.set(made.get() + 1));
        HELD.with(|held| held.set(held.get() + layout.size() as isize));
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.with(|held| held.set(held.get() - layout.size() as isize));
        // SAFETY: the caller's promise about `pointer` and `layout` is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations made while doing this.
fn allocations(act: impl FnOnce()) -> usize {
    let before = MADE.with(Cell::get);
    act();
    MADE.with(Cell::get) - before
}

fn session() -> (Protocol, Outbox) {
    let defaults = Defaults {
        model: "m".into(),
        instructions: String::new(),
        voice: "v".into(),
        tools: Vec::new(),
        turn_detection: TurnDetection::Manual,
        modality: Modality::Audio,
        max_tokens: None,
        transcription_model: "t".into(),
        now_s: 0,
        id_seed: "0123456789abcdef".into(),
        strict: false,
        session: None,
    };
    let mut outbox = Outbox::new(&defaults.id_seed);
    let mut protocol = Protocol::new(defaults);
    protocol.begin(&mut Vec::new(), &mut outbox);
    while outbox.pop().is_some() {}
    (protocol, outbox)
}

fn append(bytes: usize) -> String {
    let sound: Vec<u8> = (0..bytes).map(|n| (n * 31) as u8).collect();
    let audio = base64::engine::general_purpose::STANDARD.encode(sound);
    format!(r#"{{"event_id":"e1","type":"input_audio_buffer.append","audio":"{audio}"}}"#)
}

/// In the middle of a spoken message.
fn speaking() -> (Protocol, Outbox, ItemId) {
    let (mut protocol, mut outbox) = session();
    let (response, item) = (ResponseId(1), ItemId::new("item_0123456789abcdef"));
    let modality = Modality::Audio;
    let head = ResponseHead {
        response,
        out_of_band: false,
        modality,
        voice: None,
        max_tokens: None,
        metadata: None,
    };
    protocol.say(ToCaller::ResponseStarted(head), &mut outbox);
    let started = ToCaller::MessageStarted { response, item: item.clone(), after: None, modality };
    protocol.say(started, &mut outbox);
    while outbox.pop().is_some() {}
    (protocol, outbox, item)
}

fn frame(item: &ItemId) -> ToCaller {
    ToCaller::Audio {
        response: Some(ResponseId(1)),
        item: item.clone(),
        generation: Generation(1),
        pcm: Pcm { rate_hz: 24_000, samples: vec![1_234; 480] },
    }
}

#[test]
fn hearing_a_frame_allocates_the_frame_and_nothing_else() {
    for bytes in [160, 960, 9_600] {
        let (mut protocol, mut outbox) = session();
        let text = append(bytes);
        let mut heard = Vec::with_capacity(4);
        for round in 0..20 {
            let made = allocations(|| protocol.hear(&text, &mut heard, &mut outbox));
            assert!(matches!(heard.pop(), Some(FromCaller::Audio(_))));
            // The first rounds make the buffers that the others use again.
            assert!(round < 2 || made == 1, "{made} allocations for {bytes} bytes");
        }
        assert!(outbox.is_empty());
    }
}

#[test]
fn saying_a_frame_allocates_nothing_while_the_socket_keeps_up() {
    let (mut protocol, mut outbox, item) = speaking();
    let mut made = Vec::new();
    for _ in 0..200 {
        let what = frame(&item);
        made.push(allocations(|| protocol.say(what, &mut outbox)));
        assert!(outbox.pop().is_some_and(|event| event.len() > 1_280));
    }
    // The buffer that frames are cut from is made anew now and then, never once a frame.
    let total: usize = made[10..].iter().sum();
    assert!(total <= 190 / 4, "{total} allocations in 190 frames: {made:?}");
}

#[test]
fn a_session_holds_little_even_after_large_messages() {
    drop(session());
    let before = HELD.with(Cell::get);
    let (mut protocol, mut outbox) = session();
    let small = append(960);
    let large = append(3_000_000);
    let update = |text: &str| {
        format!(
            r#"{{"type":"session.update","session":{{"type":"realtime","instructions":"{text}"}}}}"#
        )
    };
    let (long, short) = (update(&"x".repeat(1_000_000)), update("x"));
    let texts = HELD.with(Cell::get);
    for text in [&small, &large, &long, &short, &small, &small] {
        let mut heard = Vec::new();
        protocol.hear(text, &mut heard, &mut outbox);
        assert!(!heard.is_empty());
        while outbox.pop().is_some() {}
    }
    let inputs =
        (small.capacity() + large.capacity() + long.capacity() + short.capacity()) as isize;
    let held = HELD.with(Cell::get) - before - inputs;
    assert!(texts - before >= inputs);
    println!("bytes a session: {held}");
    assert!(held < 32 * 1024, "{held} bytes");
}

/// Not a test of speed: prints what a frame costs (`cargo test --test realtime_hot_path --
/// --ignored --nocapture`, with `CARGO_PROFILE_DEV_OPT_LEVEL=3`).
#[test]
#[ignore = "a measurement"]
#[allow(clippy::disallowed_methods)]
fn cost_of_a_frame() {
    const ROUNDS: u32 = 100_000;
    let (mut protocol, mut outbox) = session();
    let text = append(960);
    let mut heard = Vec::with_capacity(4);
    let began = std::time::Instant::now();
    for _ in 0..ROUNDS {
        protocol.hear(&text, &mut heard, &mut outbox);
        heard.clear();
    }
    println!("hear 20 ms of 24 kHz PCM: {:?}", began.elapsed() / ROUNDS);
    let (mut protocol, mut outbox, item) = speaking();
    let began = std::time::Instant::now();
    for _ in 0..ROUNDS {
        protocol.say(frame(&item), &mut outbox);
        outbox.pop();
    }
    println!("say 20 ms of 24 kHz PCM: {:?}", began.elapsed() / ROUNDS);
}
