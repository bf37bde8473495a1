//! What a caller may want, and the phrases that say so.

use super::words::Words;

/// What a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// The agent should stop and listen.
    Wait,
    /// Say the last thing again.
    Repeat,
    /// Go on with what was interrupted.
    Continue,
    /// Leave the booking alone.
    NeverMind,
    /// A human, please.
    Person,
    /// Call me back.
    CallBack,
    /// Who or what am I talking to.
    Identity,
    /// A story.
    Story,
    /// How booking works.
    HowBooking,
    /// About the place.
    About,
    /// What the agent can do.
    Abilities,
    /// Opening hours.
    Hours,
    /// Where it is.
    Address,
    /// Something that this desk does not know.
    NotKnown,
    /// What was agreed before.
    MyBooking,
    /// Cancel a booking.
    Cancel,
    /// Move a booking.
    Move,
    /// Make a booking.
    Book,
    /// What day or time it is.
    Clock,
    /// The weather.
    Weather,
    /// How are you.
    HowAreYou,
    /// Goodbye.
    Bye,
    /// Thanks.
    Thanks,
    /// A greeting.
    Greeting,
    /// A kind word.
    Praise,
    /// Sorry.
    Sorry,
}

/// Every intent with its phrases; the first that fits is meant.
const PHRASES: &[(Intent, &[&str])] = &[
    (Intent::Repeat, REPEAT),
    (Intent::Identity, IDENTITY),
    (Intent::CallBack, CALL_BACK),
    (Intent::Person, PERSON),
    (Intent::Story, &["story", "fairy tale", "joke", "read me something"]),
    (Intent::HowBooking, HOW_BOOKING),
    (Intent::About, ABOUT),
    (Intent::Abilities, ABILITIES),
    (Intent::NeverMind, NEVER_MIND),
    (Intent::MyBooking, MY_BOOKING),
    (Intent::Cancel, CANCEL),
    (Intent::Move, MOVE),
    (Intent::Clock, CLOCK),
    (Intent::NotKnown, NOT_KNOWN),
    (Intent::Hours, HOURS),
    (Intent::Address, ADDRESS),
    (Intent::Book, BOOK),
    (Intent::Continue, &["go on", "continue", "carry on", "keep going", "and then"]),
    (Intent::Wait, WAIT),
    (Intent::Weather, &["weather", "raining", "sunny"]),
    (Intent::HowAreYou, &["how are you", "how is it going", "how do you do", "are you well"]),
    (Intent::Bye, BYE),
    (Intent::Thanks, &["thank", "thanks", "thank you", "cheers"]),
    (Intent::Greeting, GREETING),
    (Intent::Praise, PRAISE),
    (Intent::Sorry, &["sorry", "apologies", "my mistake"]),
];

const REPEAT: &[&str] = &[
    "say that again",
    "say it again",
    "say again",
    "repeat",
    "pardon",
    "what did you say",
    "come again",
    "once more",
    "did not catch",
    "did not hear",
    "can not hear you",
    "did not understand you",
    "what was that",
    "again please",
];
const IDENTITY: &[&str] = &[
    "who are you",
    "who is this",
    "what are you",
    "are you a robot",
    "are you human",
    "are you a human",
    "are you a real",
    "are you real",
    "are you a machine",
    "are you a bot",
    "are you a person",
    "are you an ai",
    "are you ai",
    "a robot",
    "a computer",
    "your name",
    "who am i speaking",
    "who am i talking",
];
const PERSON: &[&str] = &[
    "human",
    "real person",
    "to a person",
    "speak to",
    "speak with",
    "a person please",
    "an actual person",
    "somebody",
    "some 1",
    "someone",
    "operator",
    "representative",
    "manager",
    "receptionist",
    "put me through",
    "transfer me",
    "talk to a colleague",
];
const CALL_BACK: &[&str] = &[
    "call me back",
    "call back",
    "callback",
    "called back",
    "ring me back",
    "phone me back",
    "call me later",
    "ring me later",
    "give me a call",
    "give me a ring",
];
const HOW_BOOKING: &[&str] = &[
    "explain",
    "how does booking",
    "how does the booking",
    "how does it work",
    "how do i book",
    "how can i book",
    "how booking works",
    "how does a reservation",
    "how do reservations",
    "how do bookings",
];
const ABOUT: &[&str] = &[
    "tell me about",
    "tell me something about",
    "tell me more",
    "about the restaurant",
    "about your restaurant",
    "about the place",
    "about yourself",
    "describe",
    "what kind of place",
    "what kind of restaurant",
];
const ABILITIES: &[&str] = &[
    "what can you do",
    "what can i do",
    "what do you do",
    "how can you help",
    "can you help",
    "what can i ask",
    "i need help",
    "help me",
    "what are my options",
];
const NEVER_MIND: &[&str] = &[
    "never mind",
    "forget it",
    "forget about it",
    "forget that",
    "leave it",
    "scrap that",
    "cancel that",
    "changed my mind",
    "do not bother",
];
const MY_BOOKING: &[&str] = &[
    "what is my booking",
    "when is my booking",
    "when is my table",
    "what did i book",
    "my confirmation number",
    "confirmation number",
    "is it booked",
    "is my table booked",
    "did you book",
    "am i booked",
    "have you booked",
    "did it go through",
    "did it work",
];
const CANCEL: &[&str] =
    &["cancel", "cancle", "cancelling", "canceling", "call off", "cancellation"];
const MOVE: &[&str] = &[
    "move my",
    "move the",
    "move a",
    "move our",
    "move it",
    "change my booking",
    "change my reservation",
    "change my table",
    "change the booking",
    "change the reservation",
    "change my appointment",
    "reschedule",
    "postpone",
    "shift my",
    "push back my",
];
const CLOCK: &[&str] = &[
    "what time is it",
    "what day is it",
    "what is the time",
    "what is the date",
    "what day is today",
    "the date today",
];
const NOT_KNOWN: &[&str] = &[
    "menu",
    "vegan",
    "vegetarian",
    "gluten",
    "allergy",
    "allergies",
    "allergic",
    "parking",
    "park my",
    "price",
    "prices",
    "how much",
    "cost",
    "costs",
    "expensive",
    "wifi",
    "a dog",
    "my dog",
    "dogs",
    "order",
    "food",
    "drinks",
    "dishes",
    "wheelchair",
    "high chair",
    "playground",
    "dress code",
    "credit card",
    "halal",
    "kosher",
    "your email",
    "website",
];
const HOURS: &[&str] = &[
    "opening hours",
    "opening times",
    "opening ours",
    "opening our",
    "opening",
    "your hours",
    "you open",
    "are open",
    "it open",
    "restaurant open",
    "open on",
    "open until",
    "open today",
    "open tomorrow",
    "opened",
    "closing",
    "you close",
    "you closed",
    "business hours",
    "hours",
];
const ADDRESS: &[&str] = &[
    "address",
    "where are you",
    "where is the restaurant",
    "where is it",
    "located",
    "location",
    "how do i get",
    "how can i get",
    "directions",
    "find you",
    "what street",
];
const BOOK: &[&str] = &[
    "book",
    "booking",
    "bookings",
    "reserve",
    "reservation",
    "table",
    "tables",
    "appointment",
    "slot",
    "slots",
    "free",
    "available",
    "availability",
    "dinner",
    "lunch",
    "brook a table",
    "come in on",
    "eat",
];
const WAIT: &[&str] = &[
    "wait",
    "stop",
    "hold on",
    "hang on",
    "1 moment",
    "a moment",
    "1 2nd",
    "a 2nd",
    "just a sec",
    "a minute",
    "1 minute",
    "be quiet",
    "shut up",
    "pause",
    "excuse me",
    "let me think",
    "let me speak",
    "let me finish",
    "listen",
    "enough",
];
const BYE: &[&str] = &[
    "bye",
    "goodbye",
    "good bye",
    "see you",
    "that is all",
    "that will be all",
    "that is everything",
    "nothing else",
    "have a nice day",
    "have a good day",
    "good night",
    "hang up",
];
const GREETING: &[&str] = &[
    "hello",
    "hi",
    "hey",
    "good morning",
    "good afternoon",
    "good evening",
    "good day",
    "anybody there",
    "anyone there",
    "you there",
];
const PRAISE: &[&str] = &[
    "great",
    "wonderful",
    "nice",
    "lovely",
    "cool",
    "amazing",
    "excellent",
    "brilliant",
    "good job",
    "well done",
    "funny",
];

/// What the caller wants, where a phrase says so.
pub fn intent(words: &Words) -> Option<Intent> {
    if words.is_any(&["what", "sorry", "huh", "what what", "sorry what", "again", "excuse me what"])
    {
        return Some(Intent::Repeat);
    }
    PHRASES.iter().find(|(_, phrases)| words.says_any(phrases)).map(|(intent, _)| *intent)
}

/// The caller said yes.
pub fn yes(words: &Words) -> bool {
    const YES: &[&str] = &[
        "yes",
        "yeah",
        "yep",
        "yup",
        "yah",
        "ja",
        "sure",
        "ok",
        "okay",
        "correct",
        "right",
        "exactly",
        "fine",
        "please do",
        "go ahead",
        "perfect",
        "sounds good",
        "definitely",
        "absolutely",
        "do it",
        "do that",
        "great",
        "alright",
        "all right",
        "of course",
        "that works",
        "book it",
        "try again",
        "please",
        "good",
    ];
    words.says_any(YES) && !no(words)
}

/// The caller said no; "know" is "no" misheard where it stands first.
pub fn no(words: &Words) -> bool {
    const NO: &[&str] = &["no", "nope", "nah", "not", "wrong", "incorrect", "rather not"];
    (words.says_any(NO) || words.at(0) == "know") && !words.says("no problem")
}
