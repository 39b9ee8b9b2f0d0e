/** Sleeps until `wake` is called or a time has come. A `wake` before `sleep` ends the next sleep at once. */
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
