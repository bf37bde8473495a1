// Which microphone and which loudspeaker, as the browser names them; kept for the next visit.

const KEEP = { audioinput: "floorkeeper.microphone", audiooutput: "floorkeeper.speaker" };
const NAMES = { audioinput: "Microphone", audiooutput: "Speaker" };

export class Devices {
  /** `onMicrophone(id)`, `onSpeaker(id)`: chosen by hand, "" for the system's own. */
  constructor({ microphone, speaker, speakerRow, onMicrophone, onSpeaker }) {
    this.selects = { audioinput: microphone, audiooutput: speaker };
    speakerRow.hidden = !canChooseSpeaker();
    microphone.addEventListener("change", () => this.chosen("audioinput", onMicrophone));
    speaker.addEventListener("change", () => this.chosen("audiooutput", onSpeaker));
    navigator.mediaDevices?.addEventListener?.("devicechange", () => this.refresh());
    this.refresh();
  }

  get microphone() {
    return localStorage.getItem(KEEP.audioinput) || "";
  }

  get speaker() {
    return canChooseSpeaker() ? localStorage.getItem(KEEP.audiooutput) || "" : "";
  }

  chosen(kind, then) {
    localStorage.setItem(KEEP[kind], this.selects[kind].value);
    then(this.selects[kind].value);
  }

  /** Browsers name devices only once the page may listen. */
  async refresh() {
    const known = (await navigator.mediaDevices?.enumerateDevices?.().catch(() => [])) || [];
    for (const [kind, select] of Object.entries(this.selects)) {
      const wanted = localStorage.getItem(KEEP[kind]) || "";
      const named = known.filter((device) => device.kind === kind && device.deviceId && device.deviceId !== "default");
      const options = named.map((device, at) => new Option(device.label || `${NAMES[kind]} ${at + 1}`, device.deviceId));
      select.replaceChildren(new Option("The system's own", ""), ...options);
      select.value = named.some((device) => device.deviceId === wanted) ? wanted : "";
    }
  }
}

function canChooseSpeaker() {
  return "setSinkId" in HTMLMediaElement.prototype;
}
