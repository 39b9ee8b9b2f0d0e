/** Sleeps until it is woken or a time has come. A wake that comes before it sleeps counts, once. */
import { alarm, type Clock } from "./clock.ts";

export class Sleeper {
  readonly #clock: Clock;
  #isWoken = false;
  #rise: () => void = nothing;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  wake(): void {
    this.#isWoken = true;
    this.#rise();
  }

  async sleep(until: number): Promise<void> {
    if (!this.#isWoken)
      await new Promise<void>((resolve) => {
        const cancel = alarm(this.#clock, until, resolve);
        this.#rise = () => {
          cancel();
          resolve();
        };
      });
    this.#isWoken = false;
    this.#rise = nothing;
  }
}

const nothing = (): void => undefined;
