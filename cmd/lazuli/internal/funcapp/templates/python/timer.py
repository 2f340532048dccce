

@app.timer_trigger(arg_name="timer", schedule="0 */5 * * * *")
def NAME(timer: func.TimerRequest) -> None:
    logging.info("NAME runs%s", ", late" if timer.past_due else "")
