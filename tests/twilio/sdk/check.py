"""The official SDK against the double of Twilio's REST API that our tests use: what the double
says is what the SDK takes for Twilio's. Arguments: the double's address, account, token."""

import sys

from twilio.base.exceptions import TwilioRestException
from twilio.http.http_client import TwilioHttpClient
from twilio.request_validator import RequestValidator
from twilio.rest import Client

address, account, token = sys.argv[1:]


class Here(TwilioHttpClient):
    """Sends everything to the double."""

    def request(self, method, url, *args, **kwargs):
        assert url.startswith("https://api.twilio.com/"), url
        url = url.replace("https://api.twilio.com", address, 1)
        return super().request(method, url, *args, **kwargs)


def refused(code, ask):
    try:
        ask()
    except TwilioRestException as refusal:
        assert refusal.code == code, refusal
    else:
        raise AssertionError(f"nothing was refused with {code}")


client = Client(account, token, http_client=Here())
events = ["initiated", "answered", "completed"]
call = client.calls.create(
    to="+15550100200",
    from_="+15550199",
    url="https://voice.example.com/answered",
    timeout=30,
    machine_detection="Enable",
    status_callback="https://voice.example.com/status",
    status_callback_event=events,
)
assert (call.status, call.to, call.direction) == ("queued", "+15550100200", "outbound-api")
assert call.date_created is not None and call.answered_by is None
assert client.calls(call.sid).fetch().sid == call.sid
found = client.calls.list(to="+15550100200", from_="+15550199", limit=5)
assert [one.sid for one in found] == [call.sid], found
assert client.calls.list(to="+15550100201", limit=5) == []
call = call.update(twiml="<Response><Hangup/></Response>")
call = client.calls(call.sid).update(status="completed")
assert call.status == "canceled", call.status
refused(21220, lambda: call.update(status="completed"))
refused(20404, lambda: client.calls("CA404").fetch())
refused(21205, lambda: client.calls.create(to="+15550100200", from_="+15550199"))
refused(20003, lambda: Client(account, "x", http_client=Here()).calls(call.sid).fetch())

# What the double signs, Twilio's own validator takes for Twilio's.
form = {"CallSid": call.sid, "CallStatus": "busy"}
url = "https://voice.example.com/v1/twilio/outgoing/7/status"
print(RequestValidator(token).compute_signature(url, form), flush=True)
