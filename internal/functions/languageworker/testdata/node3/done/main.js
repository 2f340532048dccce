exports.first = (context) => context.done(new Error('the wrong function'));

exports.second = function (context, item) {
    setTimeout(() => context.done(null, `${item.from} ${context.bindingData.dequeueCount}`), 1);
};
